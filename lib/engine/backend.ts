/** A server behind a program, which ends with it. */
import { HttpBackend } from '../backends/http/backend.js'
import { DIRECT, type Route } from '../backends/http/route.js'
import { SandboxError } from '../base/errors.js'
import type { Logger, LostSandbox } from '../calls/index.js'
import type { Link } from './link.js'
import type { Program } from './program.js'

export class ProgramBackend extends HttpBackend {
  readonly #program: Program
  readonly #link: Link
  #destroyed: Promise<void> | undefined

  constructor(
    program: Program,
    link: Link,
    { requestTimeout, logger }: { requestTimeout: number; logger: Logger | undefined },
  ) {
    super({
      ...{ route: routeTo(program), headers: {}, fetch: link.fetch as typeof fetch },
      // There is no other connection.
      ...{ resume: false, reconnectTimeout: 0, requestTimeout, logger },
    })
    this.#program = program
    this.#link = link
    void link.lost.then(() => this.lose('disconnected'))
  }

  /** Names the end of the program, which tells the cause. */
  override lossError(reason: LostSandbox['reason']): SandboxError {
    const { lost } = super.lossError(reason)
    const { name, end, lastWords } = this.#program
    const printed = lastWords === '' ? '' : `. It printed: ${lastWords}`
    return new SandboxError('SANDBOX_LOST', `the sandbox is lost: ${name} ${end}${printed}`, {
      ...(lost && { lost }),
    })
  }

  override destroy(): Promise<void> {
    this.#destroyed ??= this.#destroy()
    return this.#destroyed
  }

  async #destroy(): Promise<void> {
    try {
      // A server that stands still cannot be asked.
      if (this.lost === undefined) await (this.#link.isPaused ? this.leave(true) : super.destroy())
    } finally {
      await this.#link.close()
    }
  }

  /** Ends the server with everything in it, without asking it. */
  async close(): Promise<void> {
    await this.leave(true)
    await this.#link.close()
  }
}

/** Its WebSockets would need another connection: a key in a terminal is a request on this one. */
function routeTo({ name }: Program): Route {
  return {
    ...DIRECT,
    name,
    target: () => ({ url: 'http://localhost', headers: {} }),
    socket: () => undefined,
  }
}
