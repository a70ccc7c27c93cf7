/** The directory of a copy-on-write workspace, on this machine. */
import { fs, path } from '../../../base/builtin.js'
import { invalidOption, type OptionError } from '../../../base/errors.js'
import { resolveFrom } from '../../../base/working-directory.js'
import type { NativeWorkspaceConfig } from '../../../boundary/index.js'
import type { workspaceOptions } from '../../../calls/workspace.js'
import type { OptionValues } from '../../../schema/kind.js'
import { isWithin, realOf } from './places.js'

/** What the rules for the directory look at. Both paths are absolute. */
interface Surroundings {
  cwd: string
  stateDir: string
  /** The name of the sandbox. */
  keep: string | undefined
}

/** A workspace, with its directory without links. Throws OptionError if it cannot be one. */
export function planWorkspace(
  {
    path: given,
    id,
    directory,
    storage,
    maxBytes,
    undoSteps = 0,
    submounts,
  }: OptionValues<typeof workspaceOptions>,
  { cwd, stateDir, keep }: Surroundings,
): NativeWorkspaceConfig {
  const memory = storage === 'memory'
  const other = id !== undefined ? 'id' : 'directory'
  if (memory && (id ?? directory) !== undefined)
    throw invalidOption(`workspace.${other} needs storage: 'disk': layers in memory end with this process`)
  const name = given === undefined ? 'workspace' : 'workspace.path'
  const root = realDirectory(resolveFrom(cwd, given ?? '.'), name)
  if (root === '/') throw refuse(name, root, 'must not be the root directory')
  const layers = directory === undefined ? undefined : existing(resolveFrom(cwd, directory))
  const state = existing(stateDir)
  if (isWithin(state, root))
    throw refuse(
      name,
      root,
      `must not contain stateDir (${state}), so give a directory below it, or set stateDir`,
    )
  if (layers !== undefined && isWithin(layers, root))
    throw refuse(name, root, `must not contain workspace.directory (${layers})`)
  if (isWithin(root, layers ?? path.join(state, 'workspaces')))
    throw refuse(name, root, `must not be inside the directory of layers (${layers ?? state})`)
  const kept = id ?? (memory ? undefined : keep)
  const passesMounts = submounts === 'pass'
  return { path: root, id: kept, directory: layers, memory, maxBytes, undoSteps, passesMounts }
}

function realDirectory(named: string, name: string): string {
  const directory = realOf(named)
  if (directory === undefined || !fs.statSync(directory, { throwIfNoEntry: false })?.isDirectory())
    throw refuse(name, named, 'must be an existing directory')
  return directory
}

/** The path with the links of the part that exists. */
function existing(file: string): string {
  const parent = path.dirname(file)
  return realOf(file) ?? (parent === file ? file : path.join(existing(parent), path.basename(file)))
}

function refuse(name: string, directory: string, rule: string): OptionError {
  return invalidOption(`${name} ${rule}: ${directory}`)
}
