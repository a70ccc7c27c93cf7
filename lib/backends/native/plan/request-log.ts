/** The log of requests of the isolation rules, for this machine. */
import { fs, path } from '../../../base/builtin.js'
import { invalidOption, type OptionError } from '../../../base/errors.js'
import type { NativeIsolation } from '../../../boundary/index.js'
import { isWithin, realOf } from './places.js'

const NAME = 'isolation.network.log'

/**
 * Checks that no program can put a link or another file at the path, whose directory must have no links. `writable`: the trees that
 * programs may write. Throws OptionError.
 */
export function planLog(file: string, writable: string[]): string {
  const directory = realOf(path.dirname(file))
  if (directory === undefined)
    throw refused(`must be in a directory that exists: create '${path.dirname(file)}'`)
  const place = path.join(directory, path.basename(file))
  const root = writable.find((root) => isWithin(place, root))
  if (root !== undefined)
    throw refused(`must be outside of what programs may write: choose a place that is not in '${root}'`)
  const found = fs.lstatSync(place, { throwIfNoEntry: false })
  if (found !== undefined && !found.isFile())
    throw refused(`must be a file, not a directory, a link or a device: choose another name than '${place}'`)
  return place
}

/** Refuses a log of a session other than its sandbox's: other sessions of the sandbox could write or see it. */
export function requireLog(given: string | undefined, sandbox: NativeIsolation): void {
  if (given === undefined || given === sandbox.log) return
  throw refused("of a session must be the sandbox's: leave it out, or give it to the sandbox")
}

function refused(rule: string): OptionError {
  return invalidOption(`${NAME} ${rule}`)
}
