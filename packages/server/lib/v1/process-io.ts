/**
 * The input and output of processes, their resources, and the health of services.
 */
import type { LogEvent, ProcessInfo } from 'nacre'
import { kinds, plans } from 'nacre/internal'
import { type backends, endpoints, processIo, protocol, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { InTurn } from '../in-turn.js'
import { cursorOf, queryFlag, queryNumber } from '../parameters.js'
import { withInstance } from '../processes.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { eventsToEnd } from '../sse.js'
import { encodeReply } from '../wire.js'
import { addSimpleCalls } from './simple-calls.js'

const outputQuery = shape({
  cursor: queryNumber,
  follow: queryFlag,
  pid: { ...queryNumber, description: 'Sends nothing if the service is now another process.' },
  encoding: kinds.encoding,
})

export function addProcessIo(define: Define, { processes, holds }: ServerContext): void {
  const inputs = new Inputs()
  addSimpleCalls<typeof protocol.processCalls, 'processId'>(define, protocol.processCalls, ({ processId }) =>
    processes.find(processId),
  )
  define({
    method: 'GET',
    path: '/v1/processes/{processId}/output',
    summary:
      'Streams the past and live output of a process, as events: stdout, stderr, exit, and finally end. Event ids are cursors.',
    query: outputQuery,
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query, lastEventId, signal }) {
      const process = await processes.find(processId)
      const current = process.info.pid
      const { pid = current, ...options } = query
      const cursor = lastEventId === undefined ? query.cursor : cursorOf(lastEventId)
      const output =
        pid === current
          ? process.output(plans.planLogStream({ ...options, cursor, signal }, 'output'))
          : nothing()
      return eventsToEnd(output, (event) => [
        {
          id: event.type === 'exit' ? undefined : event.cursor,
          data: encodeReply(tables.logEvent, event),
        },
      ])
    },
  })
  define({
    method: 'GET',
    path: '/v1/processes/{processId}/starts',
    summary: 'Streams the restarts of a service after the process `pid`, as events: start, and finally end.',
    query: shape({ pid: queryNumber }, ['pid']),
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params: { processId }, query: { pid }, lastEventId, signal }) {
      const service = await processes.findService(processId)
      const after = lastEventId === undefined ? pid : cursorOf(lastEventId)
      return eventsToEnd(successors(service, after, signal), (process) => [
        {
          id: process.pid,
          data: {
            type: 'start',
            process: encodeReply(endpoints.getProcess.reply, withInstance(service, process)),
          },
        },
      ])
    },
  })
  define({
    ...endpoints.writeToProcess,
    summary: 'Writes to the standard input of a process, or closes it. Responds when the input is written.',
    body: shape({ data: kinds.data, end: kinds.flag }),
    errors: ['PROCESS_NOT_FOUND', 'INPUT_CLOSED', 'HELD'],
    async handle({ params: { processId }, body: { data, end }, signal, hold }) {
      const process = await processes.find(processId)
      await Promise.all([
        data !== undefined && inputs.add(process, () => processIo.write(process, data, hold), signal),
        end && inputs.add(process, () => processIo.closeInput(process, hold), signal),
      ])
    },
  })
  define({
    ...endpoints.sendMessage,
    summary: 'Sends a message to a process. Responds when the kernel has taken it.',
    body: shape({ message: kinds.message }, ['message']),
    errors: ['PROCESS_NOT_FOUND', 'CHANNEL_CLOSED', 'CHANNEL_FULL', 'MESSAGE_TOO_LARGE'],
    handle: async ({ params: { processId }, body: { message } }) =>
      (await processes.find(processId)).send(kinds.message.read(message, 'message')),
  })
  define({
    ...endpoints.disconnect,
    summary: 'Closes the channel of messages to a process, after the messages sent so far.',
    errors: ['PROCESS_NOT_FOUND'],
    handle: async ({ params: { processId } }) => (await processes.find(processId)).disconnect(),
  })
  define({
    method: 'POST',
    path: '/v1/processes/{processId}/hold',
    summary:
      'Keeps the input of a process for the caller, until the stream of its events ends: held, complete.',
    body: shape({ owner: tables.holdOwner }, ['owner']),
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND', 'INPUT_CLOSED', 'HELD'],
    handle: async ({ params, body: { owner }, signal }) =>
      holds.events(await processIo.hold(await processes.find(params.processId), owner), signal),
  })
  define({
    ...endpoints.releaseProcess,
    summary: 'Ends the hold of the caller on a process, with a note for others.',
    query: shape({ note: tables.holdNote }),
    errors: ['HELD'],
    handle: async ({ query: { note }, hold }) => holds.release(hold, note),
  })
  define({
    ...endpoints.resize,
    summary: 'Sets the size of the terminal of a process.',
    body: shape(tables.terminalOptions, ['cols', 'rows']),
    errors: ['PROCESS_NOT_FOUND', 'HELD'],
    handle: async ({ params, body: { cols, rows }, hold }) =>
      processIo.resize(await processes.find(params.processId), cols, rows, hold),
  })
  define({
    ...endpoints.health,
    summary: 'Returns the health of a service.',
    errors: ['PROCESS_NOT_FOUND'],
    handle: async ({ params }) => (await processes.findService(params.processId)).health(),
  })
  define({
    ...endpoints.restart,
    summary: 'Restarts a service. Responds when it is ready.',
    errors: ['PROCESS_NOT_FOUND', 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'],
    async handle({ params: { processId } }) {
      const service = await processes.findService(processId)
      await service.restart()
      return withInstance(service)
    },
  })
}

async function* nothing(): AsyncGenerator<LogEvent, undefined> {
  yield* []
  return undefined
}

/** The processes of a service after the process with this pid, until none follows by itself or `stop` is aborted. */
async function* successors(
  service: backends.ServiceBackend,
  pid: number,
  stop: AbortSignal,
): AsyncGenerator<ProcessInfo, undefined> {
  for (let last = pid; ; ) {
    const next = await service.successor(last, stop)
    if (next === null) return undefined
    yield next
    last = next.pid
  }
}

/** Writes to processes, one at a time for each: a process may never read, and its client may be gone by then. */
class Inputs {
  readonly #turns = new WeakMap<backends.ProcessBackend, InTurn>()

  add(process: backends.ProcessBackend, write: () => Promise<void>, signal: AbortSignal): Promise<void> {
    const turns = this.#turns.get(process) ?? new InTurn()
    this.#turns.set(process, turns)
    return turns.take(write, signal)
  }
}
