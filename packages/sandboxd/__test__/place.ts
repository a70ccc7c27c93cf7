/** A sandbox behind sandboxd on loopback, and clients of both of its ports. */
import { mkdirSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import type { ClientReadableStream, ServiceError } from '@grpc/grpc-js'
import * as grpc from '@grpc/grpc-js'
import * as loader from '@grpc/proto-loader'
import { type ServeOptions, type Serving, serve } from '@nacre/server'
import { type Expectations, type Workplace, withSandbox } from '../../../__test__/helpers/invariants.js'

// Bun opens both when a stream is first piped to another. They then belong to the inventory of the first test.
void [process.stdout, process.stderr]

export const definition = loader.loadSync('process/v1/process.proto', {
  includeDirs: [path.resolve(__dirname, '../proto')],
  keepCase: true,
  enums: Number,
  defaults: true,
  oneofs: true,
})

export interface Config {
  command?: string[]
  env_vars?: Record<string, string>
  cwd?: string
}

export interface StartEvent {
  event: 'init' | 'stdout' | 'stderr' | 'exit'
  init?: { process_id: number }
  stdout?: Buffer
  stderr?: Buffer
  exit?: { exit_code: number }
}

export interface Executed {
  exit_code: number
  stdout: Buffer
  stderr: Buffer
}

export interface Answer {
  status: number
  headers: http.IncomingHttpHeaders
  body: Buffer
  json(): unknown
}

/** The names of gRPC's status codes by number. */
export function statusName(error: unknown): string {
  const { code } = error as ServiceError
  return grpc.status[code] ?? `no status: ${error}`
}

export class Place {
  readonly #client: grpc.Client
  readonly serving: Serving
  readonly workplace: Workplace
  readonly root: string

  /** `port`: where gRPC is reached, when not directly. */
  constructor(serving: Serving, workplace: Workplace, port?: number) {
    this.serving = serving
    this.workplace = workplace
    const { sandboxd } = serving
    if (sandboxd === undefined) throw new Error('sandboxd does not listen')
    this.root = sandboxd.root
    this.#client = connect(port ?? sandboxd.grpcPort)
  }

  get sandboxd() {
    if (this.serving.sandboxd === undefined) throw new Error('sandboxd does not listen')
    return this.serving.sandboxd
  }

  close(): void {
    this.#client.close()
  }

  /** A call with one reply. */
  call<R = object>(
    name: string,
    request: object,
    options: grpc.CallOptions = {},
    metadata = new grpc.Metadata(),
  ): Promise<R> {
    const { path: route, requestSerialize, responseDeserialize } = methodOf(name)
    return new Promise((resolve, reject) => {
      this.#client.makeUnaryRequest(
        route,
        requestSerialize,
        responseDeserialize,
        request,
        metadata,
        options,
        (error, reply) => (error ? reject(error) : resolve(reply as R)),
      )
    })
  }

  execute(config: Config, options?: grpc.CallOptions): Promise<Executed> {
    return this.call<Executed>('Execute', { config }, options)
  }

  start(config: Config, rest: object = {}, options: grpc.CallOptions = {}): Started {
    const { path: route, requestSerialize, responseDeserialize } = methodOf('Start')
    const stream = this.#client.makeServerStreamRequest(
      route,
      requestSerialize,
      responseDeserialize,
      { config, ...rest },
      options,
    )
    return new Started(stream as ClientReadableStream<StartEvent>)
  }

  writeStdin(process_id: number, input: Uint8Array | string): Promise<object> {
    return this.call('WriteStdin', { process_id, input: Buffer.from(input as string) })
  }

  closeInput(process_id: number): Promise<object> {
    return this.call('WriteStdin', { process_id, eof: {} })
  }

  /** A request whose target is sent as it is. */
  rest(
    method: string,
    target: string,
    body?: Uint8Array | string,
    headers: http.OutgoingHttpHeaders = {},
  ): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const options = { host: '127.0.0.1', port: this.sandboxd.restPort, method, path: target, headers }
      const request = http.request({ ...options, agent: false }, (response) => {
        const pieces: Buffer[] = []
        response.on('data', (piece) => pieces.push(piece))
        response.on('error', reject)
        response.on('end', () => {
          const content = Buffer.concat(pieces)
          resolve({
            status: response.statusCode ?? 0,
            headers: response.headers,
            body: content,
            json: () => JSON.parse(content.toString()),
          })
        })
      })
      request.on('error', reject)
      request.end(body)
    })
  }
}

/** A call of `Start`. */
export class Started implements AsyncIterable<StartEvent> {
  readonly stream: ClientReadableStream<StartEvent>
  readonly #events: AsyncIterator<StartEvent>

  constructor(stream: ClientReadableStream<StartEvent>) {
    this.stream = stream
    // An error that comes while nothing is read would end the test run.
    stream.on('error', () => {})
    this.#events = stream[Symbol.asyncIterator]()
  }

  [Symbol.asyncIterator](): AsyncIterator<StartEvent> {
    return this.#events
  }

  async next(): Promise<StartEvent> {
    const { done, value } = await this.#events.next()
    if (done) throw new Error('the stream has ended')
    return value
  }

  /** The id, from the first event. */
  async id(): Promise<number> {
    const { init } = await this.next()
    if (init == null) throw new Error('the first event is not init')
    return init.process_id
  }

  /** Reads until the output has the text. */
  async printed(text: string): Promise<string> {
    let output = ''
    while (!output.includes(text)) output += ((await this.next()).stdout ?? '').toString()
    return output
  }

  /** Reads all events, and checks their order. */
  async all(): Promise<{ stdout: Buffer; stderr: Buffer; exitCode: number; largest: number }> {
    const out: Buffer[] = []
    const err: Buffer[] = []
    let exitCode: number | undefined
    let largest = 0
    for await (const { event, stdout, stderr, exit } of this) {
      if (exitCode !== undefined) throw new Error(`${event} came after exit`)
      if (event === 'exit') exitCode = exit?.exit_code
      if (event === 'stdout' && stdout != null) out.push(stdout)
      if (event === 'stderr' && stderr != null) err.push(stderr)
      largest = Math.max(largest, stdout?.length ?? 0, stderr?.length ?? 0)
    }
    if (exitCode === undefined) throw new Error('the stream has ended without exit')
    return { stdout: Buffer.concat(out), stderr: Buffer.concat(err), exitCode, largest }
  }
}

export function connect(port: number): grpc.Client {
  return new grpc.Client(`127.0.0.1:${port}`, grpc.credentials.createInsecure(), {
    'grpc.max_receive_message_length': -1,
    // Each client has a connection of its own.
    'grpc.use_local_subchannel_pool': 1,
  })
}

function methodOf(name: string) {
  const service = definition['process.v1.ProcessService'] as grpc.ServiceDefinition
  const method = service[name]
  if (method === undefined) throw new Error(`there is no call ${name}`)
  return method as grpc.MethodDefinition<object, object>
}

/** Runs a test with sandboxd, whose root is a new directory, and checks the invariants afterwards. */
export function withSandboxd(
  test: (place: Place) => Promise<void>,
  options: ServeOptions = {},
  expectations: Expectations = {},
): Promise<void> {
  return withSandbox(async (workplace) => {
    const own = path.join(workplace.directory, 'root')
    mkdirSync(own)
    const sandboxd = { grpcPort: 0, restPort: 0, root: own, ...(options.sandboxd as object) }
    const serving = await serve(workplace.sandbox, { port: 0, ...options, sandboxd })
    const place = new Place(serving, workplace)
    try {
      await test(place)
    } finally {
      place.close()
      await serving.close()
    }
  }, expectations)
}
