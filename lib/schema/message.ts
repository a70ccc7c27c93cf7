/** A message to a process. */
import { invalidOption, SandboxError } from '../base/errors.js'
import type { Kind } from './kind.js'
import { refusal } from './read.js'

const MOST_BYTES = 16 * 1024 * 1024
/** Of arrays and objects. What writes JSON is recursive, and fails at a depth that differs between programs. */
export const MOST_LEVELS = 1000

/** Any value that JSON has, as one line. Too large a one is refused with MESSAGE_TOO_LARGE. */
export const message: Kind<unknown, string> = {
  read(value, name) {
    const line = lineOf(value, name)
    // A character has at most 3 bytes.
    const bytes = line.length * 3 <= MOST_BYTES ? 0 : new TextEncoder().encode(line).length
    if (bytes > MOST_BYTES)
      throw new SandboxError(
        'MESSAGE_TOO_LARGE',
        `${name} has ${bytes} bytes as JSON, more than ${MOST_BYTES}: send less at once`,
      )
    if (isDeep(value, line))
      throw invalidOption(`${name} must have at most ${MOST_LEVELS} levels of arrays and objects`)
    // Node.js would keep it from the program.
    if (/^\{.*"cmd":"NODE_./s.test(line) && /^NODE_./s.test(String(JSON.parse(line).cmd)))
      throw invalidOption(`${name}.cmd must not begin with "NODE_": Node.js keeps such messages`)
    return line
  },
  json: { schema: { isAny: true } },
  bounds: 'a value that JSON has, 16 MiB and 1000 levels',
}

/** Whether a value has too many levels. `line`: its JSON. */
export function isDeep(value: unknown, line: string): boolean {
  // Most messages are too short for that.
  if (line.length <= 2 * MOST_LEVELS) return false
  let level = [value].filter(isObject)
  for (let count = 0; count < MOST_LEVELS && level.length > 0; count++)
    level = level.flatMap((object) => Object.values(object).filter(isObject))
  return level.length > 0
}

function isObject(value: unknown): value is object {
  return typeof value === 'object' && value !== null
}

function lineOf(value: unknown, name: string): string {
  let line: string | undefined
  try {
    line = JSON.stringify(value)
  } catch (cause) {
    const [reason] = String(cause instanceof Error ? cause.message : cause).split('\n')
    throw invalidOption(`${name} cannot be written as JSON: ${reason}`, { cause })
  }
  if (line === undefined) throw refusal(name, 'must be a value that JSON has', value)
  return line
}
