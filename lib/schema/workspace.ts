/** The kinds of a copy-on-write workspace. */
import type { SandboxOptions, WorkspaceOptions } from '../calls/index.js'
import { base64, dataSchema, type WireData } from './command.js'
import { either, mapped, object, oneOf } from './constructors.js'
import { type FromBase64, type Kind, type OptionValues, table } from './kind.js'
import { identifier } from './names.js'
import { count } from './numbers.js'
import { type CheckedPath, checkPath, directory, encodePath } from './paths.js'
import { refusal } from './read.js'

const MODES = ['direct', 'copy-on-write'] as const

/** Of `workspace`. */
export const workspaceOptions = table<WorkspaceOptions>()({
  mode: oneOf(['copy-on-write']),
  path: directory,
  id: identifier,
  directory,
  storage: { ...oneOf(['disk', 'memory']), default: 'disk' },
  maxBytes: count(1, Number.MAX_SAFE_INTEGER),
  undoSteps: { ...count(0, 100), default: 0 },
})

/** `workspace`: the options of a copy-on-write workspace; undefined for the real files. */
export const workspace: Kind<
  NonNullable<SandboxOptions['workspace']>,
  OptionValues<typeof workspaceOptions> | undefined
> = either(
  mapped(oneOf(MODES, "must be 'direct', 'copy-on-write' or { mode: 'copy-on-write' }"), (mode) =>
    mode === 'direct' ? undefined : { mode },
  ),
  (value) => typeof value !== 'object' || value === null || Array.isArray(value),
  object(workspaceOptions, ['mode']),
  "'direct', 'copy-on-write' or an object",
)

/** Paths of a workspace, as text or bytes. */
export const workspacePaths: Kind<(string | Uint8Array)[], CheckedPath[]> = {
  read(value, name) {
    if (!Array.isArray(value) || value.length === 0)
      throw refusal(name, 'must be a list of paths, not empty', value)
    return value.map((path, at) => checkPath(path, `${name}[${at}]`))
  },
  json: {
    schema: { items: { schema: dataSchema } },
    rule: 'must be a list of paths, each as text or bytes like {"base64": "/w=="}',
    encode: (paths: CheckedPath[]) => paths.map(encodePath),
    decode: (json: WireData[], fromBase64: FromBase64) =>
      json.map((path, at) =>
        typeof path === 'string' ? path : fromBase64(base64.read(path.base64, `[${at}].base64`)),
      ),
  },
  bounds: 'a list of paths, not empty',
}
