/** A message to a process. */
import { OptionError, SandboxError } from '../base/errors.js'
import type { Kind } from './kind.js'
import { refusal } from './read.js'

const MOST_BYTES = 16 * 1024 * 1024

/** Any value that JSON has, as one line. Too large a one is refused with MESSAGE_TOO_LARGE. */
export const message: Kind<unknown, string> = {
  read(value, name) {
    const line = lineOf(value, name)
    // A character has at most 3 bytes.
    const bytes = line.length * 3 <= MOST_BYTES ? 0 : new TextEncoder().encode(line).length
    if (bytes > MOST_BYTES)
      throw new SandboxError(
        'MESSAGE_TOO_LARGE',
        `${name} has ${bytes} bytes as JSON, more than ${MOST_BYTES}`,
      )
    // Node.js would keep it from the program.
    if (/^\{.*"cmd":"NODE_./s.test(line) && /^NODE_./s.test(String(JSON.parse(line).cmd)))
      throw new OptionError(
        'INVALID_OPTION',
        `${name}.cmd must not begin with "NODE_": Node.js keeps such messages`,
      )
    return line
  },
  json: { schema: { isAny: true } },
  bounds: 'a value that JSON has, 16 MiB',
}

function lineOf(value: unknown, name: string): string {
  let line: string | undefined
  try {
    line = JSON.stringify(value)
  } catch (cause) {
    const [reason] = String(cause instanceof Error ? cause.message : cause).split('\n')
    throw new OptionError('INVALID_OPTION', `${name} cannot be written as JSON: ${reason}`, { cause })
  }
  if (line === undefined) throw refusal(name, 'must be a value that JSON has', value)
  return line
}
