/** A sandbox behind a real server on loopback, and the raw requests of its clients. */
import { type ServeOptions, type Serving, serve } from '@nacre/server'
import { type Expectations, type Workplace, withSandbox } from './invariants.js'
import { until } from './until.js'

export interface HttpPlace extends Workplace {
  serving: Serving
  url: string
  /** Sends JSON, and returns the status and the body of the reply. */
  call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply>
  post(path: string, body?: unknown): Promise<Reply>
  get(path: string): Promise<Reply>
  /** Sends JSON and returns the events of the reply. */
  stream(method: string, path: string, body?: unknown, headers?: Record<string, string>): EventReply
}

// biome-ignore lint/suspicious/noExplicitAny: tests look into replies of every shape
export type Body = any

export interface Reply {
  status: number
  body: Body
}

export interface ReceivedEvent {
  id: string | undefined
  data: Body
}

export interface EventReply extends AsyncIterable<ReceivedEvent> {
  /** Disconnects without a close handshake, like a killed client. */
  vanish(): void
}

/** Runs a test with a server, and checks the invariants after the server has closed. */
export function withServer(
  test: (place: HttpPlace) => Promise<void>,
  options: ServeOptions = {},
  expectations: Expectations = {},
): Promise<void> {
  return withSandbox(async (workplace) => {
    const serving = await serve(workplace.sandbox, { port: 0, ...options })
    try {
      await test({ ...workplace, serving, url: serving.url, ...requestsTo(serving.url, options.token) })
    } finally {
      await serving.close()
    }
  }, expectations)
}

export function requestsTo(url: string, token?: string) {
  const send = (
    method: string,
    path: string,
    body?: unknown,
    headers?: Record<string, string>,
    signal?: AbortSignal,
  ) =>
    fetch(url + path, {
      method,
      headers: {
        ...(token !== undefined && { authorization: `Bearer ${token}` }),
        ...(body !== undefined && { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body !== undefined && { body: JSON.stringify(body) }),
      ...(signal && { signal }),
    })
  const call = async (method: string, path: string, body?: unknown, headers?: Record<string, string>) => {
    const response = await send(method, path, body, headers)
    return { status: response.status, body: await response.json() } as Reply
  }
  return {
    call,
    post: (path: string, body: unknown = {}) => call('POST', path, body),
    get: (path: string) => call('GET', path),
    stream(method: string, path: string, body?: unknown, headers?: Record<string, string>): EventReply {
      const leave = new AbortController()
      return {
        vanish: () => leave.abort(),
        async *[Symbol.asyncIterator]() {
          const response = await send(method, path, body, headers, leave.signal)
          if (response.status !== 200 || response.body === null)
            throw new Error(`${response.status} ${await response.text()}`)
          yield* parse(response.body)
        },
      }
    },
  }
}

/** The events of a body. Comments are left out. */
async function* parse(body: ReadableStream<Uint8Array>): AsyncGenerator<ReceivedEvent> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of body) {
    text += decoder.decode(chunk, { stream: true })
    const blocks = text.split('\n\n')
    text = blocks.pop() ?? ''
    for (const block of blocks) {
      const lines = block.split('\n')
      const field = (name: string) =>
        lines.find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2)
      const data = field('data')
      if (data !== undefined) yield { id: field('id'), data: JSON.parse(data) }
    }
  }
}

/** The data of all events. */
export async function dataOf(events: AsyncIterable<ReceivedEvent>): Promise<Body[]> {
  const list: Body[] = []
  for await (const { data } of events) list.push(data)
  return list
}

/** The output of one stream. */
export function textOf(events: Body[], type = 'stdout'): string {
  return events.map((event) => (event.type === type ? event.data : '')).join('')
}

/** Waits until the value of `sample` stays the same while the server answers fifty requests. */
export async function unchanged(url: string, sample: () => string): Promise<void> {
  await until(
    async () => {
      const before = sample()
      for (let count = 0; count < 50; count++) {
        await (await fetch(`${url}/healthz`)).text()
        if (sample() !== before) return undefined
      }
      return true
    },
    () => `it changes: ${sample()}`,
    20_000,
  )
}
