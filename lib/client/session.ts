/**
 * Commands and processes of one session of the server; without an id, of the one that the options name.
 */
import type { RemoteProcess as PublicProcess, RemoteSession as PublicSession } from '../../client.js'
import type {
  Command,
  Encoding,
  EnvChanges,
  ExecResult,
  HistoryEntry,
  HistoryOptions,
  ExecStream as PublicExecStream,
  SessionExecOptions,
  SessionProcessOptions,
} from '../../index.js'
import { SandboxError } from '../errors.js'
import { readOptions } from '../options/read.js'
import { historyOptions } from '../protocol/session-options.js'
import { shellTag } from '../tag.js'
import { exec, execStream, type Place, setEnv, startProcess } from './calls.js'

type WireEntry = Omit<HistoryEntry, 'startTime'> & { startTime: string }

export class RemoteSession implements PublicSession {
  readonly id: string
  readonly $ = shellTag((command, options) => this.exec(command, options))
  readonly #place: Place

  constructor(id: string, place: Place) {
    this.id = id
    this.#place = place
  }

  async exec<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): Promise<ExecResult<E, L>> {
    return (await exec(this.#place, command, options, this.id)) as ExecResult<E, L>
  }

  execStream<E extends Encoding = 'utf8', L extends boolean = false>(
    command: Command,
    options?: SessionExecOptions<E, L>,
  ): PublicExecStream<E, L> {
    const stream: PublicExecStream<Encoding> = execStream(this.#place, command, options, this.id)
    return stream as PublicExecStream<E, L>
  }

  async startProcess(command: Command, options?: SessionProcessOptions): Promise<PublicProcess> {
    return startProcess(this.#place, command, options, this.id)
  }

  async setEnvVars(vars: EnvChanges): Promise<void> {
    await setEnv(this.#place, vars, this.id)
  }

  async history(options?: HistoryOptions): Promise<HistoryEntry[]> {
    const { limit } = readOptions(historyOptions, options, 'session.history')
    const { commands } = await this.#place.connection.call<{ commands: WireEntry[] }>({
      method: 'GET',
      path: `/v1/sessions/${this.id}/history`,
      query: { limit },
    })
    return commands.map((entry) => ({ ...entry, startTime: new Date(entry.startTime) }))
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#place.connection.call({ method: 'DELETE', path: `/v1/sessions/${this.id}`, waits: true })
      this.#place.begun.sessions.delete(this.id)
    } catch (error) {
      const gone = ['SESSION_NOT_FOUND', 'SANDBOX_DESTROYED']
      if (!(error instanceof SandboxError && gone.includes(error.code))) throw error
    }
  }
}
