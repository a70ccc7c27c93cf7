/**
 * Commands and processes, as sandboxes and sessions both run them. A session passes its id; a sandbox takes the id from the
 * options.
 */
import { locate } from '../base/call-site.js'
import { OptionError } from '../base/errors.js'
import type * as api from '../calls/index.js'
import { type ExecRequest, readExec } from '../requests/exec.js'
import { type ProcessRequest, readProcess } from '../requests/process.js'
import { readService } from '../requests/service.js'
import { callbackObserver } from '../run/callbacks.js'
import { ExecStream, type StreamSource } from '../run/exec-stream.js'
import type { Result } from '../run/run.js'
import { callError, settle } from '../run/settle.js'
import { ShellRun } from '../run/shell-run.js'
import { envChanges } from '../schema/env.js'
import { readArgument } from '../schema/read.js'
import type { Backend } from './backend.js'
import { type Process, processOf, type Service } from './process.js'
import { shellTag } from './tag.js'

export class Runner {
  readonly $ = shellTag<Pick<api.ExecOptions, 'sessionId'>>((command, options) => {
    const request = this.#owned(readExec(command, options, '$', this.#sessionId))
    return new ShellRun(request, sourceOf(this.#backend)) as api.ShellRun<api.Encoding, boolean>
  })
  readonly #backend: Backend
  readonly #sessionId: string | undefined
  readonly #hold: string | undefined

  /** `hold`: the caller's, of the session. */
  constructor(backend: Backend, sessionId?: string, hold?: string) {
    this.#backend = backend
    this.#sessionId = sessionId
    this.#hold = hold
  }

  async exec<E extends api.Encoding = 'utf8', L extends boolean = false>(
    command: api.Command,
    options?: api.ExecOptions<E, L>,
  ): Promise<api.ExecResult<E, L>> {
    const request = this.#owned(readExec(command, options, 'exec', this.#sessionId))
    const result: api.ExecResult<api.Encoding, boolean> = await runToEnd(this.#backend, request)
    return result as api.ExecResult<E, L>
  }

  execStream<E extends api.Encoding = 'utf8', L extends boolean = false>(
    command: api.Command,
    options?: api.ExecOptions<E, L>,
  ): api.ExecStream<E, L> {
    const request = readExec(command, options, 'execStream', this.#sessionId)
    return openStream(this.#backend, this.#owned(request))
  }

  async startProcess(command: api.Command, options?: api.ProcessOptions): Promise<Process> {
    const request = this.#owned(readProcess(command, options, this.#sessionId))
    return startWith(this.#backend, request, async () => processOf(await this.#backend.startProcess(request)))
  }

  async startService(command: api.Command, options: api.ServiceOptions): Promise<Service> {
    const { process, ...rest } = readService(command, options, this.#sessionId)
    const request = { ...rest, process: this.#owned(process) }
    return startWith(this.#backend, process, async () => processOf(await this.#backend.startService(request)))
  }

  #owned<T extends ExecRequest | ProcessRequest>(request: T): T {
    return this.#hold === undefined ? request : { ...request, hold: this.#hold }
  }
}

/** Runs a command and resolves with its result. */
export function runToEnd(backend: Backend, request: ExecRequest): Promise<Result> {
  return settled(backend, request, (traced) => backend.exec(traced, callbackObserver(traced)))
}

/** Starts a run and returns its stream. */
export function openStream<E extends api.Encoding, L extends boolean = false>(
  backend: Backend,
  request: ExecRequest,
): api.ExecStream<E, L> {
  const stream: api.ExecStream<api.Encoding> = new ExecStream(request, sourceOf(backend))
  return stream as api.ExecStream<E, L>
}

function sourceOf(backend: Backend): StreamSource {
  return {
    start: (request, observer) => backend.stream(request, observer),
    settle: (request, perform) => settled(backend, request, perform),
  }
}

/** Publishes a run and calls the callbacks of its end. */
function settled(
  backend: Backend,
  request: ExecRequest,
  perform: (request: ExecRequest) => Promise<Result>,
): Promise<Result> {
  return backend.traced(request, (traced) => settle(traced, backend.logger, () => perform(traced)))
}

/** Calls `start`, and onError if it fails, except for an OptionError. */
export async function startWith<T>(
  { logger }: Backend,
  { callbacks, site }: Pick<ProcessRequest, 'callbacks' | 'site'>,
  start: () => Promise<T>,
): Promise<T> {
  try {
    return await start()
  } catch (error) {
    locate(error, site)
    if (!(error instanceof OptionError)) callError(callbacks, logger, error)
    throw error
  }
}

/** Checks the variables and sets them in a session, after the commands queued before. */
export async function setEnv(
  backend: Backend,
  sessionId: string,
  vars: unknown,
  hold?: string,
): Promise<void> {
  await backend.setEnv(sessionId, readArgument(envChanges, vars, 'vars'), hold)
}
