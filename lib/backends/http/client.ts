/** `SandboxClient`: the facade over a server. */
import type { ClientOptions, SandboxClient as PublicSandboxClient } from '../../calls/client.js'
import type * as api from '../../calls/index.js'
import { portUrlOptions } from '../../calls/ports.js'
import { planOf } from '../../protocol/endpoint.js'
import { archiveCalls } from '../../protocol/simple-calls.js'
import { SandboxFacade } from '../../sandbox/facade.js'
import { Jobs } from '../../sandbox/jobs.js'
import { Session } from '../../sandbox/session.js'
import { portNumber } from '../../schema/http.js'
import { readArgument, readOptions } from '../../schema/read.js'
import { HttpBackend } from './backend.js'
import { planClient } from './options.js'

/** A client on an existing backend. */
class BackendClient extends SandboxFacade implements PublicSandboxClient {
  readonly jobs: api.RemoteJobs
  readonly archives: api.Archives
  readonly #backend: HttpBackend

  constructor(backend: HttpBackend) {
    super(backend, (id) => new Session(backend, id))
    this.#backend = backend
    this.jobs = new Jobs(backend.jobs)
    this.archives = backend.archives
  }

  async portUrl(port: number, options?: api.PortUrlOptions): Promise<string> {
    const number = readArgument(portNumber.read, port, 'port')
    return this.#backend.portUrl(number, readOptions(portUrlOptions, options, 'portUrl'))
  }

  async suspend(options?: api.SuspendOptions): Promise<api.SuspendedOnServer> {
    return this.#backend.archives.calls.suspend(planOf(archiveCalls.suspend, options))
  }

  async resume(
    archive: Uint8Array | AsyncIterable<Uint8Array> | ReadableStream<Uint8Array>,
    options?: api.UploadOptions,
  ): Promise<api.ResumedOnServer> {
    return this.#backend.archives.resume(archive, options)
  }

  async close(): Promise<void> {
    await this.#backend.leave()
  }
}

export class SandboxClient extends BackendClient {
  constructor(options: ClientOptions) {
    super(new HttpBackend(planClient(options)))
  }
}

/** Makes a SandboxClient of a backend. The class itself takes only options. */
export function clientOf(backend: HttpBackend): PublicSandboxClient {
  return Reflect.construct(BackendClient, [backend], SandboxClient)
}
