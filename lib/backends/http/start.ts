/**
 * Starts a process on the server, and ties it to what it was given here: its input, its AbortSignal and its callbacks.
 */
import { onAbort, refuseAborted } from '../../base/abort.js'
import { AbortError, SandboxError } from '../../base/errors.js'
import { InputFeed } from '../../run/input.js'
import type { Connection } from './connection.js'
import type { RemoteProcessPlan } from './plan.js'
import { isGone, logStream, type RemoteProcess, type WireProcess } from './process.js'

/** `start` asks the server for it; `introduce` makes the process of what the server says of it. */
export async function startRemote<T extends RemoteProcess>(
  connection: Connection,
  plan: RemoteProcessPlan,
  start: () => Promise<WireProcess>,
  introduce: (info: WireProcess) => T,
): Promise<T> {
  const { signal, callbacks, input } = plan
  refuseAborted(signal, 'the process')
  const feed = input && new InputFeed(input)
  try {
    const process = introduce(await start())
    await begin(process, plan)
    const stop = () => void process.kill().catch(() => {})
    const release = onAbort(signal, stop)
    const fail = (error: unknown) => {
      report(connection, callbacks, error)
      stop()
    }
    // A process that reads no more is no failure. Otherwise it must not wait for what cannot be given to it.
    const refuse = (error: unknown) => {
      if (!isGone(error) && !(error instanceof SandboxError && error.code === 'INPUT_CLOSED')) throw error
      feed?.close()
    }
    feed?.feed({
      write: (data) => process.write(data).catch(refuse),
      closeInput: () => void process.closeStdin().catch(refuse).catch(fail),
      fail,
    })
    if (isObserved(plan)) observe(connection, process, plan).finally(release)
    return process
  } catch (error) {
    feed?.close()
    tellError(connection, callbacks, error)
    throw error
  }
}

/** What can still keep the start from being one: it may have been aborted while the server started it. */
async function begin(process: RemoteProcess, { signal, callbacks }: RemoteProcessPlan): Promise<void> {
  try {
    if (signal?.aborted) throw new AbortError(signal.reason, undefined, 'the process')
    callbacks.onStart?.(process)
  } catch (error) {
    await process.kill()
    throw error
  }
}

/** Only then a connection is held for it. */
function isObserved({ callbacks, signal }: RemoteProcessPlan): boolean {
  return (callbacks.onOutput ?? callbacks.onExit ?? signal) !== undefined
}

/** Tells the output and the end; what a callback throws goes to onError. */
async function observe(
  connection: Connection,
  process: RemoteProcess,
  { callbacks }: RemoteProcessPlan,
): Promise<void> {
  const { onOutput, onExit } = callbacks
  let tellsOutput = onOutput !== undefined
  try {
    for await (const event of logStream(connection, process.id, {})) {
      try {
        if (event.type === 'exit') onExit?.(event.exitCode, event.signal)
        else if (tellsOutput) onOutput?.(event.type, event.data)
      } catch (error) {
        tellsOutput = false
        report(connection, callbacks, error)
      }
    }
  } catch (error) {
    report(connection, callbacks, error)
  }
}

function report(connection: Connection, callbacks: RemoteProcessPlan['callbacks'], error: unknown): void {
  if (callbacks.onError === undefined) connection.logger?.warn(`a callback of a process threw: ${error}`)
  else tellError(connection, callbacks, error)
}

function tellError(
  connection: Connection,
  { onError }: RemoteProcessPlan['callbacks'],
  error: unknown,
): void {
  try {
    onError?.(error)
  } catch (second) {
    connection.logger?.warn(`onError threw: ${second}`)
  }
}
