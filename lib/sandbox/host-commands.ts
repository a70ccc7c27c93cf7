/**
 * The host's end of host commands: frames on the connection of a caller, as crates/host-commands/src/client.rs has them.
 *
 * The caller is hostile: it may send anything, read slowly, or end at any moment. It sends one call, and then only input that
 * was asked for; anything else ends the connection.
 */
import type { Duplex } from 'node:stream'
import { buffer } from '../base/builtin.js'
import { AbortError } from '../base/errors.js'
import { clearTimeout, setTimeout } from '../base/timers.js'
import type { HostCommand, HostCommandCall, HostCommandOutput } from '../calls/index.js'

const { Buffer } = buffer
type Bytes = Buffer<ArrayBufferLike>

const HEAD = 5
const MOST_CALL_BYTES = 3 * 1024 * 1024
const PIECE_BYTES = 64 * 1024
/** Most arguments and variables. */
const MOST_TEXTS = 20_000
/** Milliseconds in which a caller must send its call. It does so at once. */
const MOST_SILENCE = 10_000

/** Serves one call to its end. Never rejects. */
export async function serveCall(
  connection: Duplex,
  commands: ReadonlyMap<string, HostCommand>,
  sessionId: string,
): Promise<void> {
  const caller = new Caller(connection)
  const call = await caller.call()
  const run = call && commands.get(call.name)
  // Without an exit code, the caller says that there is no such command.
  if (call === undefined || run === undefined) return caller.close()
  const { args, env, cwd, name } = call
  let code: unknown
  try {
    const { stdin, stdout, stderr, signal } = caller
    code = await run({ args, env, cwd, sessionId, stdin, stdout, stderr, signal })
    if (!isCode(code))
      throw new TypeError(`the function must return an exit code, 0 to 255, not ${String(code)}`)
  } catch (error) {
    code = 1
    await caller.stderr.write(`${name}: ${textOf(error)}\n`).catch(() => {})
  }
  await caller.exit(code as number)
}

/** Some values cannot be converted to text. */
function textOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error)
  } catch {
    return 'the function has failed'
  }
}

function isCode(code: unknown): code is number {
  return Number.isInteger(code) && (code as number) >= 0 && (code as number) <= 255
}

interface Begun extends Pick<HostCommandCall, 'args' | 'env' | 'cwd'> {
  name: string
}

class Caller {
  readonly #connection: Duplex
  readonly #ended = new AbortController()
  #received: Bytes[] = []
  #length = 0
  /** What takes the next frame, and its kind. Without one, the caller must not send anything. */
  #expected: { kind: string; most: number; take: (content: Bytes | undefined) => void } | undefined
  #isDone = false
  /** Resolves when all that was written before is on its way, or the caller has ended. */
  #written: Promise<unknown> = Promise.resolve()

  readonly signal: AbortSignal = this.#ended.signal
  readonly stdout: HostCommandOutput = { write: (data) => this.#write('o', data) }
  readonly stderr: HostCommandOutput = { write: (data) => this.#write('e', data) }
  readonly stdin: AsyncIterableIterator<Uint8Array>

  constructor(connection: Duplex) {
    this.#connection = connection
    this.stdin = input(() => this.#read())
    connection.on('data', (data: Bytes) => this.#take(data))
    for (const event of ['end', 'error', 'close']) connection.on(event, () => this.#end())
  }

  /** Receives the call; undefined if the caller ends, or sends something else. */
  async call(): Promise<Begun | undefined> {
    const late = setTimeout(() => this.close(), MOST_SILENCE).unref()
    const content = await this.#expect('c', MOST_CALL_BYTES)
    clearTimeout(late)
    if (content === undefined || !hasFewTexts(content)) return undefined
    const texts = content.toString().split('\0')
    const [name = '', cwd = '', count = ''] = texts.splice(0, 3)
    const args = texts.splice(0, Number(count))
    if (count === '' || args.length !== Number(count)) return undefined
    // Behind the last NUL is nothing.
    const variables = texts.slice(0, -1).map((text): [string, string] => {
      const at = text.indexOf('=', 1)
      return [text.slice(0, at), text.slice(at + 1)]
    })
    return { name, args, cwd, env: Object.fromEntries(variables) }
  }

  /** Reports the exit code, behind everything that was written. */
  async exit(code: number): Promise<void> {
    this.#isDone = true
    await this.#written
    this.#connection.end(frame('q', Uint8Array.of(code)))
  }

  close(): void {
    this.#isDone = true
    this.#connection.destroy()
  }

  #expect(kind: string, most: number): Promise<Bytes | undefined> {
    return new Promise((resolve) => {
      if (this.signal.aborted) return resolve(undefined)
      this.#expected = { kind, most, take: resolve }
    })
  }

  async #read(): Promise<Uint8Array> {
    if (this.#isDone || this.signal.aborted) throw ended()
    const asked = new DataView(new ArrayBuffer(4))
    asked.setUint32(0, PIECE_BYTES, true)
    const received = this.#expect('i', PIECE_BYTES)
    this.#connection.write(frame('r', new Uint8Array(asked.buffer)))
    const content = await received
    if (content === undefined) throw ended()
    return content
  }

  #take(data: Bytes): void {
    const expected = this.#expected
    this.#received.push(data)
    this.#length += data.length
    // Nothing may follow what is expected.
    if (expected === undefined || this.#length > HEAD + expected.most) {
      this.close()
      return
    }
    if (this.#length < HEAD) return
    if (this.#received.length > 1 && (this.#received[0]?.length ?? 0) < HEAD)
      this.#received = [Buffer.concat(this.#received)]
    const length = this.#received[0]?.readUInt32LE(1) ?? 0
    const isRight = this.#received[0]?.[0] === expected.kind.charCodeAt(0)
    if (!isRight || length > expected.most || this.#length > HEAD + length) {
      this.close()
      return
    }
    if (this.#length < HEAD + length) return
    const frame = Buffer.concat(this.#received)
    this.#received = []
    this.#length = 0
    this.#expected = undefined
    expected.take(frame.subarray(HEAD))
  }

  /** One write after another. A function that does not wait for one does not learn that the caller has ended, which is no error. */
  #write(kind: string, data: string | Uint8Array): Promise<void> {
    const written = this.#isDone ? Promise.reject(ended()) : this.#writeAfter(this.#written, kind, data)
    this.#written = written.catch(() => {})
    return written
  }

  async #writeAfter(earlier: Promise<unknown>, kind: string, data: string | Uint8Array): Promise<void> {
    if (!(data instanceof Uint8Array) && typeof data !== 'string')
      throw new TypeError('write takes a string or a Uint8Array')
    // A copy: its owner may change it meanwhile.
    const bytes = Buffer.from(data as string)
    await earlier
    for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
      if (this.signal.aborted) throw ended()
      await this.#send(frame(kind, bytes.subarray(at, at + PIECE_BYTES)))
    }
  }

  #send(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const stop = () => reject(ended())
      this.signal.addEventListener('abort', stop, { once: true })
      this.#connection.write(bytes, (error) => {
        this.signal.removeEventListener('abort', stop)
        if (error) reject(ended())
        else resolve()
      })
    })
  }

  #end(): void {
    this.#connection.destroy()
    if (!this.#isDone && !this.signal.aborted) this.#ended.abort(ended())
    this.#expected?.take(undefined)
    this.#expected = undefined
  }
}

function ended(): AbortError {
  return new AbortError(undefined, undefined, 'the call of the host command')
}

/** Many short texts would take this thread long. */
function hasFewTexts(content: Bytes): boolean {
  let count = 0
  for (let at = content.indexOf(0); at >= 0 && count <= MOST_TEXTS; at = content.indexOf(0, at + 1)) count++
  return count <= MOST_TEXTS
}

/** One loop may go on where another one has stopped. */
function input(read: () => Promise<Uint8Array>): AsyncIterableIterator<Uint8Array> {
  let last: Promise<unknown> = Promise.resolve()
  let isAtEnd = false
  const next = async (): Promise<IteratorResult<Uint8Array>> => {
    const value = isAtEnd ? new Uint8Array() : await read()
    isAtEnd = value.length === 0
    return isAtEnd ? { done: true, value: undefined } : { done: false, value }
  }
  return {
    next() {
      const result = last.then(next)
      last = result.catch(() => {})
      return result
    },
    return: async () => ({ done: true, value: undefined }),
    [Symbol.asyncIterator]() {
      return this
    },
  }
}

function frame(kind: string, content: Uint8Array): Bytes {
  const head = Buffer.alloc(HEAD)
  head.write(kind, 'latin1')
  head.writeUInt32LE(content.length, 1)
  return Buffer.concat([head, content])
}
