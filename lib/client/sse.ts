/**
 * Server-sent events from the body of a response. What is cut off at the end is no event.
 */

export interface ServerEvent {
  id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: each route has events of its own
  data: any
}

export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<ServerEvent, undefined> {
  const reader = body.getReader()
  const splitter = new EventSplitter()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return undefined
      yield* splitter.write(value)
    }
  } finally {
    reader.cancel().catch(() => {})
  }
}

/** Puts events together, wherever their bytes were cut. */
export class EventSplitter {
  readonly #decoder = new TextDecoder()
  /** The beginning of an event, in pieces: one of megabytes is put together once. */
  #begun: string[] = []
  /** A line break that may be the first of the two that end an event. */
  #break = ''

  write(bytes: Uint8Array): ServerEvent[] {
    let text = this.#break + this.#decoder.decode(bytes, { stream: true })
    this.#break = text.endsWith('\n') && !text.endsWith('\n\n') ? '\n' : ''
    if (this.#break !== '') text = text.slice(0, -1)
    const blocks = text.split('\n\n')
    const rest = blocks.pop() ?? ''
    const events = blocks.flatMap((block) => parse(this.#begun.splice(0).join('') + block) ?? [])
    this.#begun.push(rest)
    return events
  }
}

/** Comments are none. */
function parse(block: string): ServerEvent | undefined {
  let id: string | undefined
  let data: string | undefined
  for (const line of block.split('\n')) {
    if (line.startsWith('data: ')) data = line.slice(6)
    else if (line.startsWith('id: ')) id = line.slice(4)
  }
  return data === undefined ? undefined : { id, data: JSON.parse(data) }
}
