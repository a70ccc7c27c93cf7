/**
 * The program of a call: its arguments, variables and directory, checked. Nothing here looks at the disk.
 */
import path from 'node:path'
import { quote } from '../../options/read.js'
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

const NAME = /^[A-Za-z_][A-Za-z0-9_]*$/

/** Checks a config. Throws INVALID_ARGUMENT, and PERMISSION_DENIED for a directory outside the root. */
export function readConfig(raw: RawConfig | null, root: string): Config {
  const { command = [], env_vars: env = {}, cwd = '' } = raw ?? {}
  const [program = ''] = command
  if (program === '') throw invalid('command must have a program')
  if (command.some(hasNul)) throw invalid('command must not have NUL characters')
  for (const [name, value] of Object.entries(env)) {
    if (!NAME.test(name)) throw invalid(`env_vars has ${quote(name)}, which is no name of a variable`)
    if (hasNul(value)) throw invalid(`env_vars has a NUL character in ${name}`)
  }
  if (hasNul(cwd)) throw invalid('cwd must not have NUL characters')
  return { command, env, cwd: below(root, cwd) }
}

/** The directory relative to the root. Symlinks are for the files helper to follow. */
function below(root: string, cwd: string): string {
  const relative = path.relative(root, path.resolve(root, cwd))
  if (relative === '..' || relative.startsWith('../'))
    throw new Refused('PERMISSION_DENIED', `cwd ${quote(cwd)} is outside the root ${root}`)
  return relative === '' ? '.' : relative
}

function hasNul(text: string): boolean {
  return text.includes('\0')
}

function invalid(message: string): Refused {
  return new Refused('INVALID_ARGUMENT', message)
}
