/**
 * The metrics of the server, in the text format of Prometheus.
 */

import type { Encoding, ExecResult } from 'nacre'
import { AbortError, plans, SandboxError } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'

/** Upper bounds of the histogram of durations, in seconds. */
const BUCKETS = [0.001, 0.005, 0.025, 0.1, 0.5, 1, 5, 30, 120, 600]

/** Fewer sessions are not pruned between two renderings. */
const FEW = 1000

/** What is rendered beside the counts. */
interface Surroundings {
  active: number
  instance: string
  sandboxes: string[]
}

/** The outcome of a command. */
export type Outcome = 'success' | 'failure' | 'timeout' | 'cancelled' | 'detached' | 'error'

export class Metrics {
  readonly #commands = new Map<Outcome, number>()
  readonly #buckets = BUCKETS.map(() => 0)
  readonly #ends = new Map<string, number>()
  readonly #backend: backends.Backend
  /** By session; only sessions that exist are rendered. */
  readonly #inSessions = new Map<string, number>()
  /** The number of sessions at which those that have ended are dropped. */
  #pruneAt = FEW
  #durations = 0
  #seconds = 0
  #bytes = 0
  #restarts = 0
  #escalations = 0
  #started = 0
  #requests = 0
  #refused = 0

  constructor(backend: backends.Backend) {
    this.#backend = backend
  }

  request(): void {
    this.#requests++
  }

  refusal(): void {
    this.#refused++
  }

  /** A command ends with a result, or an error that may have one. */
  async command<T extends ExecResult<Encoding>>(run: Promise<T>): Promise<T> {
    try {
      const result = await run
      this.#count(outcomeOf(result), result)
      return result
    } catch (error) {
      const result = Object.hasOwn(Object(error), 'result') ? (error as SandboxError).result : undefined
      this.#count(outcomeOf(error), result)
      throw error
    }
  }

  /** A process was started; its end is counted when it comes. */
  process(process: backends.ProcessBackend): void {
    this.#started++
    this.#awaitEnd(process).catch(() => add(this.#ends, 'lost'))
  }

  /** Unlike `wait`, this does not keep the event loop alive. */
  async #awaitEnd(process: backends.ProcessBackend): Promise<void> {
    for await (const event of process.watch(false)) {
      if (event.type !== 'exit') continue
      const { reason, signal } = event
      add(this.#ends, reason ?? 'lost')
      if (signal === 'SIGKILL' && (reason === 'killed' || reason === 'timeout')) this.#escalations++
      return
    }
    add(this.#ends, 'lost')
  }

  #count(outcome: Outcome, result: ExecResult<Encoding> | undefined): void {
    add(this.#commands, outcome)
    if (result === undefined) return
    this.#countIn(result.sessionId)
    const seconds = result.duration / 1000
    this.#durations++
    this.#seconds += seconds
    for (const [index, bound] of BUCKETS.entries())
      if (seconds <= bound) this.#buckets[index] = (this.#buckets[index] ?? 0) + 1
    this.#bytes += sizeOf(result)
    if (result.sessionRestarted) this.#restarts++
    if (result.signal === 'SIGKILL' && (result.timedOut || result.cancelled)) this.#escalations++
  }

  /** Only a session that exists has results, so the id comes from the sandbox and not from a request. */
  #countIn(sessionId: string): void {
    add(this.#inSessions, sessionId)
    if (this.#inSessions.size < this.#pruneAt) return
    this.#pruneAt = Number.POSITIVE_INFINITY
    // The next command tries again if the sandbox is lost.
    void this.#prune().catch(() => {
      this.#pruneAt = this.#inSessions.size
    })
  }

  /** Drops the sessions that no longer exist, and resolves to the number of the others. */
  async #prune(): Promise<number> {
    const sessions = await this.#backend.listSessions()
    const existing = new Set(sessions)
    for (const id of this.#inSessions.keys()) if (!existing.has(id)) this.#inSessions.delete(id)
    this.#pruneAt = Math.max(FEW, 2 * this.#inSessions.size)
    return sessions.length
  }

  /** `active`: requests at the moment. `sandboxes`: ids of the fleet's sandboxes that callers use. */
  async render({ active, instance, sandboxes }: Surroundings): Promise<string> {
    const [processes, sessions] = await Promise.all([
      this.#backend.listProcesses(plans.planFilter(undefined)),
      this.#prune(),
    ])
    const running = processes.filter(({ info: { status } }) => status === 'running' || status === 'starting')
    const histogram = BUCKETS.map(
      (bound, index) => `nacre_command_duration_seconds_bucket{le="${bound}"} ${this.#buckets[index]}`,
    )
    return `${[
      ...family('nacre_server_info', 'gauge', 'The instance of the server, as in X-Nacre-Instance.'),
      `nacre_server_info{instance="${instance}"} 1`,
      ...family('nacre_sandbox_info', 'gauge', 'Sandboxes of fleets that callers use on this server.'),
      ...sandboxes.map((id) => `nacre_sandbox_info{sandbox="${escaped(id)}"} 1`),
      ...family('nacre_commands_total', 'counter', 'Foreground commands that have ended.'),
      ...labelled('nacre_commands_total', 'outcome', this.#commands),
      ...family('nacre_command_duration_seconds', 'histogram', 'How long foreground commands ran.'),
      ...histogram,
      `nacre_command_duration_seconds_bucket{le="+Inf"} ${this.#durations}`,
      `nacre_command_duration_seconds_sum ${this.#seconds}`,
      `nacre_command_duration_seconds_count ${this.#durations}`,
      ...single('nacre_processes', 'gauge', 'Background processes that run.', running.length),
      ...single('nacre_processes_started_total', 'counter', 'Background processes started.', this.#started),
      ...family('nacre_processes_ended_total', 'counter', 'Background processes that have ended.'),
      ...labelled('nacre_processes_ended_total', 'reason', this.#ends),
      ...single('nacre_sessions', 'gauge', 'Sessions.', sessions),
      ...family('nacre_session_commands_total', 'counter', 'Foreground commands of the sessions that exist.'),
      ...labelled('nacre_session_commands_total', 'session', this.#inSessions),
      ...single(
        'nacre_output_bytes_total',
        'counter',
        'Output of foreground commands; text by characters.',
        this.#bytes,
      ),
      ...single('nacre_session_restarts_total', 'counter', 'Shells that were brought back.', this.#restarts),
      ...single('nacre_kill_escalations_total', 'counter', 'Ends by SIGKILL on request.', this.#escalations),
      ...single('nacre_http_requests_total', 'counter', 'Requests.', this.#requests),
      ...single(
        'nacre_http_requests_refused_total',
        'counter',
        'Requests answered with an error.',
        this.#refused,
      ),
      ...single('nacre_http_requests_active', 'gauge', 'Requests at the moment.', active),
    ].join('\n')}\n`
  }
}

function outcomeOf(end: unknown): Outcome {
  if (end instanceof SandboxError)
    return end.code === 'COMMAND_TIMEOUT' ? 'timeout' : Object.hasOwn(end, 'result') ? 'failure' : 'error'
  if (end instanceof Error) return end instanceof AbortError ? 'cancelled' : 'error'
  const { success, cancelled, process } = end as ExecResult<Encoding>
  if (process !== undefined) return 'detached'
  if (cancelled) return 'cancelled'
  return success ? 'success' : 'failure'
}

/** Text counts by characters: counting its bytes would cost too much. */
function sizeOf({ stdout, stderr, truncated }: ExecResult<Encoding>): number {
  return stdout.length + stderr.length + (truncated === null ? 0 : truncated.stdout + truncated.stderr)
}

function add<K>(counts: Map<K, number>, key: K): void {
  counts.set(key, (counts.get(key) ?? 0) + 1)
}

function family(name: string, type: string, help: string): string[] {
  return [`# HELP ${name} ${help}`, `# TYPE ${name} ${type}`]
}

function single(name: string, type: string, help: string, value: number): string[] {
  return [...family(name, type, help), `${name} ${value}`]
}

function labelled(name: string, label: string, counts: Map<string, number>): string[] {
  return Array.from(counts, ([value, count]) => `${name}{${label}="${escaped(value)}"} ${count}`)
}

/** A label's value as the format of Prometheus writes it. */
function escaped(value: string): string {
  return value.replaceAll('\\', '\\\\').replaceAll('"', '\\"').replaceAll('\n', '\\n')
}
