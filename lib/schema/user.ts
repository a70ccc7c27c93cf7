/**
 * Reader for the user that a sandbox runs as. The engine finds out whether the name exists.
 */
import { OptionError } from '../base/errors.js'
import { wholeNumber } from './numbers.js'
import { describe, readGroup } from './read.js'

/** 2^32-1 stands for "no change" in setresuid(2). */
const id = wholeNumber(0, 0xffff_fffe)

const idOptions = { uid: id, gid: id }

/** A name, or both numeric ids. */
export function user(value: unknown, name: string): { name: string } | { uid: number; gid: number } {
  if (typeof value === 'string') {
    if (value !== '' && !/[\0:\n]/.test(value)) return { name: value }
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must be the name of a user or { uid, gid }, not ${describe(value)}`,
    )
  }
  const { uid, gid } = readGroup(idOptions, value, name)
  if (uid !== undefined && gid !== undefined) return { uid, gid }
  throw new OptionError('INVALID_OPTION', `${name} must have both uid and gid`)
}
