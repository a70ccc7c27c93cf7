/**
 * Decodes bytes to text, in slices for large results.
 *
 * Invalid bytes become U+FFFD, and a byte order mark stays: the output of a command is not a document.
 */
import { buffer, timers } from './builtin.js'
import { engineError } from './errors.js'
import { characterBoundary } from './utf8.js'

const { constants } = buffer
const { setImmediate } = timers

/** 256 KiB: 0.2 ms of ASCII and 1 to 3 ms of anything else, so that no slice takes 5 ms. */
const SLICE_BYTES = 256 * 1024

/** Decodes bytes of any size; the event loop gets a turn after every slice. */
export async function decodeText(bytes: Buffer): Promise<string> {
  let text = ''
  let start = 0
  while (bytes.length - start > SLICE_BYTES) {
    const end = characterBoundary(bytes, start + SLICE_BYTES)
    text = append(text, bytes.toString('utf8', start, end))
    start = end
    await setImmediate()
  }
  return append(text, bytes.toString('utf8', start))
}

function append(text: string, more: string): string {
  if (text.length + more.length <= constants.MAX_STRING_LENGTH) return text + more
  throw engineError(
    'ENGINE_ERROR',
    `the output is longer than the longest string (${constants.MAX_STRING_LENGTH}); use encoding: 'buffer' or a smaller maxBuffer`,
  )
}
