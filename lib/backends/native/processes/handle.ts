/**
 * One started process on this side of the boundary: its last known state, and its end.
 *
 * The handle waits for the end from the start on, without keeping the event loop alive. So it knows how the process ended
 * even after the engine has forgotten it.
 */

import { engineError, ignoring } from '../../../base/errors.js'
import { signalName } from '../../../base/signals.js'
import type { NativeKilledBy, NativeProcess, NativeProcessRef } from '../../../boundary/index.js'
import type { KilledBy, ProcessExit, ProcessInfo, ProcessStatus } from '../../../calls/index.js'
import type { KillRequest } from '../../../requests/logs.js'
import type { HoldBackend } from '../../../sandbox/backend.js'
import type { Engine } from '../engine.js'
import { Holdable } from '../holds.js'
import type { ProcessPlan } from '../plan/process.js'

/** What a handle needs to know of the start. */
interface Started {
  request: Pick<ProcessPlan['request'], 'killSignal' | 'forceKillAfterDelay' | 'input' | 'pty' | 'ipc'>
  source: ProcessPlan['source']
}

/** The sockets and servers of a process that were refused, see messages.ts. */
export interface Refusals {
  /** The number of the first line whose own was not. */
  upTo: number
  /** Whether an answer is on its way. */
  isPending: boolean
}

export class ProcessHandle {
  readonly engine: Engine
  /** The process for the engine. */
  readonly ref: NativeProcessRef
  /** Resolves with the last state. */
  readonly ended: Promise<NativeProcess>
  /** Whether its input stays open for `write`. */
  readonly hasPipe: boolean
  readonly hasTerminal: boolean
  /** Whether it has a channel of messages. */
  readonly hasChannel: boolean
  readonly refusals: Refusals = { upTo: 0, isPending: false }
  /** Its input, which one caller can hold. */
  readonly input: Holdable
  /** The default signal and delay of `kill`. */
  readonly #killDefaults: { signal: number; forceKillAfterDelay: number }
  #state: NativeProcess

  /** To be called while the start event is handled: later, the engine may have forgotten the process. */
  constructor(engine: Engine, started: NativeProcess, { request, source }: Started) {
    this.engine = engine
    this.#state = started
    this.ref = { processId: started.processId, number: started.number }
    this.#killDefaults = { signal: request.killSignal, forceKillAfterDelay: request.forceKillAfterDelay }
    this.hasPipe = request.input === 'open' && source === undefined
    this.input = new Holdable(`process '${started.processId}'`)
    this.hasTerminal = request.pty !== undefined
    this.hasChannel = request.ipc
    this.ended = new Promise((resolve) => {
      engine.watch(
        (native, id) => native.waitProcess(id, this.ref),
        (event) => {
          this.#state = (event.kind === 'done' ? event.value : null) ?? this.#lost()
          this.input.end()
          resolve(this.#state)
        },
      )
    })
  }

  get id(): string {
    return this.ref.processId
  }

  /** The current state, or the last state that the engine reported. */
  get state(): NativeProcess {
    if (isOver(this.#state)) return this.#state
    const now = this.#ask()
    // After this process has ended, its id may belong to another process.
    if (now !== null && now.number === this.ref.number) this.#state = now
    return this.#state
  }

  /** Holds the input until the process ends. Throws HELD or INPUT_CLOSED. */
  hold(owner: string): HoldBackend {
    if (isOver(this.state)) throw engineError('INPUT_CLOSED', 'the process has ended')
    return this.input.take(owner)
  }

  /** Kills the whole tree, and resolves once all of it has exited. False if the process had ended before. */
  async kill(request: KillRequest): Promise<boolean> {
    if (isOver(this.state)) return false
    const { signal = this.#killDefaults.signal } = request
    const { forceKillAfterDelay = this.#killDefaults.forceKillAfterDelay } = request
    const { by = 'caller', reason } = request
    const killed = await this.#kill(signal, forceKillAfterDelay, { by, reason })
    // So that the next query returns the final state.
    await this.wait()
    return killed
  }

  /** Like `ended`, but keeps the event loop alive until then, or until `stop` is aborted. */
  wait(stop?: AbortSignal): Promise<NativeProcess> {
    const release = this.engine.hold()
    stop?.addEventListener('abort', release, { once: true })
    return this.ended.finally(release)
  }

  async #kill(signal: number, forceKillAfterDelay: number, by: NativeKilledBy): Promise<boolean> {
    const killing = this.engine.call((native, id) =>
      native.killProcess(id, this.ref, signal, forceKillAfterDelay, by),
    )
    // If the engine has forgotten the process, it had ended. Its last event may still be on its way.
    return (await ignoring(killing, 'PROCESS_NOT_FOUND')) ?? false
  }

  /** The last state of a process that the engine has forgotten: it was destroyed before the start was handled here. */
  #lost(): NativeProcess {
    const endedAt = Date.now()
    if (this.engine.isDestroyed)
      return { ...this.#state, state: 'killed', reason: 'killed', killedBy: { by: 'session' }, endedAt }
    return { ...this.#state, state: 'crashed', endedAt }
  }

  #ask(): NativeProcess | null {
    try {
      return this.engine.ask((native) => native.process(this.id)) ?? null
    } catch {
      // The sandbox has been destroyed; the last event follows.
      return null
    }
  }
}

/** Whether a state is the last one. */
export function isOver({ state }: NativeProcess): boolean {
  return state !== 'running'
}

/** The public form of a process with this input. */
export function infoOf(native: NativeProcess, { owner: heldBy, handedBack }: Holdable): ProcessInfo {
  const { processId, pid, command, sessionId } = native
  const { exitCode, signal, reason } = exitOf(native)
  const dateOf = (time: number | undefined) => (time === undefined ? null : new Date(time))
  return {
    ...{ id: processId, pid, command, sessionId, status: statusOf(native) },
    startTime: new Date(native.startedAt),
    ...(native.endedAt !== undefined && { endTime: new Date(native.endedAt) }),
    lastOutputAt: dateOf(native.lastOutputAt),
    lastInputAt: dateOf(native.lastInputAt),
    heldBy,
    handedBack,
    terminal: native.terminal === undefined ? null : { ...native.terminal },
    ...{ exitCode, signal, reason },
    killedBy: killedByOf(native.killedBy),
  }
}

/** The public status: only an end of its own accord is completed or failed. */
function statusOf({ state, reason, exitCode }: NativeProcess): ProcessStatus {
  if (state === 'running') return 'running'
  if (state === 'crashed') return 'error'
  if (reason !== 'exit') return 'killed'
  return exitCode === 0 ? 'completed' : 'failed'
}

/** The public form of what has killed a command or a process. */
export function killedByOf(native: NativeKilledBy | undefined): KilledBy | null {
  return native === undefined ? null : { by: native.by, reason: native.reason ?? null }
}

/** The public form of a process's end. */
export function exitOf({ exitCode, signal, reason }: NativeProcess): ProcessExit {
  return {
    exitCode: exitCode ?? null,
    signal: signal === undefined ? null : signalName(signal),
    reason: reason ?? null,
  }
}

/** The end of a process as words for messages. */
export function describeEnd(state: NativeProcess): string {
  const { exitCode, signal, reason } = exitOf(state)
  if (reason === 'timeout') return 'was killed by its timeout'
  if (reason === 'oom') return 'was killed for lack of memory'
  if (reason === 'killed') return 'was killed'
  if (reason === 'host-lost') return 'ended with the program that had the sandbox'
  if (signal !== null) return `was ended by ${signal}`
  return exitCode === null ? 'was lost' : `ended with exit code ${exitCode}`
}
