/**
 * The initial environment of a sandbox.
 */
import { homeDirectory } from '../../../base/home.js'
import type { EnvLists } from '../../../schema/env.js'

/** PATH when neither the caller nor this process sets it. */
const DEFAULT_PATH = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'

/** The complete environment of a sandbox: this process's, or the bare defaults, plus the changes. */
export function completeEnv(
  changes: EnvLists | undefined,
  extend: boolean,
): { names: string[]; values: string[] } {
  const begin = extend ? process.env : { PATH: DEFAULT_PATH, HOME: homeDirectory(), LANG: 'C.UTF-8' }
  const env = new Map<string, string>()
  for (const [name, value] of Object.entries(begin)) {
    if (value !== undefined) env.set(name, value)
  }
  for (const [index, name] of (changes?.names ?? []).entries()) {
    const value = changes?.values[index]
    if (typeof value === 'string') env.set(name, value)
    else env.delete(name)
  }
  return { names: [...env.keys()], values: [...env.values()] }
}
