/**
 * Mounts of the isolation rules, for this machine.
 *
 * No path may lead through a symlink: programs could have made it. The engine follows none either.
 */
import { fs, path } from '../../../base/builtin.js'
import { invalidOption, type OptionError } from '../../../base/errors.js'
import type { NativeMount } from '../../../boundary/index.js'
import type { CheckedMount } from '../../../schema/isolation-rules.js'
import { isWithin, realOf } from './places.js'

/** The view has its own ones of these, and a source there would show the machine's. */
const OWN = ['/proc', '/dev', '/sys']
/** Has a private directory in the view, in which every target can be created. */
const TEMPORARY = '/tmp'
/** The entries of a directory in which a target is created are mounted one by one. */
const MAX_ENTRIES = 1000

/** Checks mounts on this machine. `write` are the writable trees. Throws OptionError. */
export function planMounts(mounts: CheckedMount[], write: string[]): NativeMount[] {
  const planned = mounts.map(normalized)
  for (const [index, { source, target }] of planned.entries()) {
    const name = `isolation.filesystem.mounts[${index}]`
    checkSource(source, `${name}.source`)
    checkTarget(target, write, `${name}.target`)
    const other = planned
      .slice(0, index)
      .findIndex((one) => isWithin(target, one.target) || isWithin(one.target, target))
    if (other >= 0)
      throw refused(
        `${name}.target`,
        `must not be, contain or lie in the target of mounts[${other}]:`,
        target,
      )
  }
  return planned
}

/** Refuses mounts of a session other than those of its sandbox, in any order. */
export function requireMounts(given: CheckedMount[] | undefined, sandbox: NativeMount[]): void {
  const texts = (mounts: NativeMount[]) => JSON.stringify(mounts.map((one) => JSON.stringify(one)).sort())
  if (given === undefined || texts(given.map(normalized)) === texts(sandbox)) return
  throw invalidOption(
    "isolation.filesystem.mounts of a session must be the sandbox's: leave it out, or give it to the sandbox",
  )
}

function normalized({ source, target }: CheckedMount): NativeMount {
  return { source: path.resolve(source), target: path.resolve(target) }
}

function checkSource(source: string, name: string): void {
  checkPlace(source, name)
  if (kindOf(source) === undefined) throw refused(name, 'must exist: create it. There is no', source)
  checkDirectory(source, source, name)
}

function checkTarget(target: string, write: string[], name: string): void {
  checkPlace(target, name)
  const base = existing(target)
  checkDirectory(base, target, name)
  if (base === target) return
  if (write.some((root) => isWithin(base, root)))
    throw refused(name, 'must exist below a writable directory: create it. There is no', target)
  if (isWithin(base, TEMPORARY)) return
  const count = entriesOf(base)
  if (count === undefined)
    throw refused(name, `must exist, since '${base}' cannot be read: create it. There is no`, target)
  if (count > MAX_ENTRIES)
    throw refused(
      name,
      `must exist, since '${base}' has more than ${MAX_ENTRIES} entries: create it. There is no`,
      target,
    )
}

function checkPlace(file: string, name: string): void {
  if (file === '/' || OWN.some((root) => isWithin(file, root)))
    throw refused(
      name,
      "must not be '/', nor in /proc, /dev or /sys: choose another directory instead of",
      file,
    )
}

/** Refuses a path whose existing part, `base`, is no directory, or has symlinks. */
function checkDirectory(base: string, file: string, name: string): void {
  const real = realOf(base)
  if (real !== base) {
    const instead = real === undefined ? '' : `: use '${path.join(real, path.relative(base, file))}'`
    throw refused(name, `must not lead through a symlink${instead}, not`, file)
  }
  if (kindOf(base) !== 'directory') throw refused(name, 'must be a directory, not', file)
}

/** The longest part of a path that exists. */
function existing(file: string): string {
  return kindOf(file) === undefined ? existing(path.dirname(file)) : file
}

/** What is at a path itself; undefined if nothing is, or it cannot be seen. */
function kindOf(file: string): 'directory' | 'other' | undefined {
  try {
    return fs.lstatSync(file).isDirectory() ? 'directory' : 'other'
  } catch {
    return undefined
  }
}

function entriesOf(directory: string): number | undefined {
  try {
    return fs.readdirSync(directory).length
  } catch {
    return undefined
  }
}

function refused(name: string, rule: string, file: string): OptionError {
  return invalidOption(`${name} ${rule} '${file}'`)
}
