/**
 * The program of a call: its arguments, variables and directory, checked. Nothing here looks at the disk.
 */
import { kinds, path } from 'nacre/internal'
import { Refused } from './status.js'

/** A `ProcessConfig` as the decoder gives it. */
export interface RawConfig {
  command: string[]
  env_vars: Record<string, string>
  cwd?: string
}

export interface Config {
  command: string[]
  env: Record<string, string>
  /** Relative to the root; `.` is the root itself. */
  cwd: string
}

/** The kernel takes no longer argument or variable. */
const MOST_BYTES = 128 * 1024 - 1

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Checks a config. Throws INVALID_ARGUMENT, and PERMISSION_DENIED for a directory outside the root, whose paths are `roots`. */
export function readConfig(raw: RawConfig | null, roots: readonly [string, ...string[]]): Config {
  const { command = [], env_vars: env = {}, cwd = '' } = raw ?? {}
  const [program = ''] = command
  if (program === '') throw invalid('command must have a program')
  if (command.some(hasNul)) throw invalid('command must not have NUL characters')
  if (command.some(isTooLong)) throw invalid(`command must have words of at most ${MOST_BYTES} bytes`)
  for (const [name, value] of Object.entries(env)) {
    if (!NAME.test(name)) throw invalid(`env_vars has ${kinds.quote(name)}, which is no name of a variable`)
    if (hasNul(value)) throw invalid(`env_vars has a NUL character in ${name}`)
    if (isTooLong(`${name}=${value}`))
      throw invalid(`env_vars has more than ${MOST_BYTES} bytes in ${kinds.quote(name)}, name included`)
  }
  if (hasNul(cwd)) throw invalid('cwd must not have NUL characters')
  return { command, env, cwd: below(roots, cwd) }
}

/** The directory relative to the root. Symlinks are for the files helper to follow. */
function below(roots: readonly [string, ...string[]], cwd: string): string {
  const [root] = roots
  const relative = (path.isAbsolute(cwd) ? roots : [root])
    .map((start) => path.relative(start, path.resolve(root, cwd)))
    .find((found) => found !== '..' && !found.startsWith('../'))
  if (relative === undefined)
    throw new Refused('PERMISSION_DENIED', `cwd ${kinds.quote(cwd)} is outside the root ${root}`)
  return relative === '' ? '.' : relative
}

function hasNul(text: string): boolean {
  return text.includes('\0')
}

function isTooLong(text: string): boolean {
  return Buffer.byteLength(text) > MOST_BYTES
}

function invalid(message: string): Refused {
  return new Refused('INVALID_ARGUMENT', message)
}
