/** The lines of a stream of bytes. */
import { OptionError } from 'nacre/internal'

/** A line of a recording has at most 1 MiB of output, of which each byte takes at most 6 characters. */
const LONGEST_LINE = 8 * 1024 * 1024

/** Without their ends. Throws OptionError for a line that is longer than those of recordings. */
export async function* linesOf(stream: AsyncIterable<Uint8Array>): AsyncGenerator<string, void> {
  const decoder = new TextDecoder()
  let rest = ''
  for await (const piece of stream) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
    if (rest.length > LONGEST_LINE)
      throw new OptionError(
        'INVALID_OPTION',
        `a line of the recording is longer than ${LONGEST_LINE} characters`,
      )
  }
  rest += decoder.decode()
  if (rest !== '') yield rest
}
