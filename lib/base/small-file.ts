/** Reads what callers keep in files of their own: tokens, certificates and lists of values. */
import { fs } from './builtin.js'
import { invalidOption, OptionError } from './errors.js'

const MOST_BYTES = 1024 * 1024

/** The text of a file. `subject`: what names it in messages. Throws OptionError. */
export function smallText(file: string, subject: string): string {
  try {
    // A pipe without a writer must not block.
    const descriptor = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK)
    try {
      return read(descriptor, subject)
    } finally {
      fs.closeSync(descriptor)
    }
  } catch (error) {
    if (error instanceof OptionError) throw error
    const { code } = error as NodeJS.ErrnoException
    throw invalidOption(`${subject} cannot be read: ${code}; name a file that this user may read`, {
      cause: error,
    })
  }
}

function read(descriptor: number, subject: string): string {
  if (!fs.fstatSync(descriptor).isFile())
    throw invalidOption(
      `${subject} must be a file, not a directory, a pipe or a device: write the content to a file`,
    )
  // Its size says little: it can grow meanwhile, and files of /proc have none.
  const bytes = Buffer.alloc(MOST_BYTES + 1)
  let length = 0
  for (let count = 1; count > 0; length += count)
    count = fs.readSync(descriptor, bytes, length, bytes.length - length, null)
  if (length > MOST_BYTES)
    throw invalidOption(`${subject} must have at most ${MOST_BYTES} bytes: name another file`)
  return bytes.toString('utf8', 0, length)
}
