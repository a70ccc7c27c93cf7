/**
 * Replies that are one list. Of a long one, the server sends each item on a line of its own: neither one text nor one turn of
 * the event loop has all of them.
 */
import { onAbort } from '../../base/abort.js'
import { nextTurn, performance } from '../../base/timers.js'
import { PieceDecoder } from '../../base/utf8.js'
import { type Body, objectOf } from '../../schema/reply.js'

/** Begins a list in lines, after the blanks of a long reply. */
const OPENING = /^\{"(\w+)":\[\n/
const LONGEST_OPENING = 100

/** Milliseconds of decoding in one turn of the event loop. */
const LONGEST_TURN_MS = 1
/** Items that are decoded between two looks at the clock. */
const AT_ONCE = 50

/** The JSON of a body; undefined for what is not JSON. Throws what breaks the body off, or the reason of `stop`. */
export async function readList(body: ReadableStream<Uint8Array>, stop: AbortSignal): Promise<unknown> {
  const reader = body.getReader()
  const ignore = onAbort(stop, () => void reader.cancel().catch(() => {}))
  const decoder = new PieceDecoder()
  const items: unknown[] = []
  let name: string | undefined
  let isBegun = false
  let text = ''
  try {
    for (;;) {
      const { value } = await reader.read()
      if (stop.aborted) throw stop.reason
      const more = value === undefined ? decoder.end() : decoder.write(value)
      text += more
      // A line without end is searched once.
      if (name !== undefined && value !== undefined && !more.includes('\n')) continue
      if (!isBegun) {
        text = text.trimStart()
        isBegun = text.length > LONGEST_OPENING || value === undefined
        name = isBegun ? OPENING.exec(text)?.[1] : undefined
        text = name === undefined ? text : text.slice(text.indexOf('\n') + 1)
      }
      if (name !== undefined) {
        const lines = text.split('\n')
        text = lines.pop() ?? ''
        for (const line of lines) items.push(JSON.parse(line.endsWith(',') ? line.slice(0, -1) : line))
      }
      if (value !== undefined) continue
      if (name === undefined) return JSON.parse(text)
      return text === ']}' ? { [name]: items } : undefined
    }
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  } finally {
    ignore()
    reader.cancel().catch(() => {})
  }
}

/** Decodes a reply that is the list of this name, in turns of the event loop. */
export async function decodeList<T>(reply: Body<T>, json: unknown, name: string): Promise<T> {
  const { [name]: items } = objectOf(json) as Record<string, unknown>
  if (!Array.isArray(items) || items.length <= AT_ONCE) return reply.decode(json)
  const all: unknown[] = []
  let begun = performance.now()
  for (let start = 0; start < items.length; start += AT_ONCE) {
    all.push(...(reply.decode({ [name]: items.slice(start, start + AT_ONCE) }) as unknown[]))
    if (performance.now() - begun < LONGEST_TURN_MS) continue
    await nextTurn()
    begun = performance.now()
  }
  return all as T
}
