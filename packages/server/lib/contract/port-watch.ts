/**
 * Waits for a port, as events: a port of one process, or any on this machine.
 */

import { connect } from 'node:net'
import { aborts, kinds, OptionError, pause, plans, SandboxError } from 'nacre/internal'
import { type backends, httpStatus, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { type Given, shape } from '../request-json.js'
import { type Define, errorEvent } from '../route.js'
import { EventStream, type ServerEvent } from '../sse.js'
import { exitCodeOf, now, requireProcess } from './values.js'

const watchBody = shape(
  {
    port: kinds.portNumber,
    mode: tables.portOptions.mode,
    path: kinds.requestPath,
    statusMin: kinds.statusCode,
    statusMax: kinds.statusCode,
    processId: kinds.identifier,
    interval: kinds.number(
      { type: 'number', minimum: 10, maximum: 60_000 },
      'must be a number of milliseconds from 10 to 60000',
      '10 to 60000 ms',
    ),
  },
  ['port', 'mode'],
  true,
)

type Watch = Given<typeof watchBody>

/** Milliseconds between two checks. */
const DEFAULT_INTERVAL_MS = 500

const ADDRESSES = ['127.0.0.1', '::1']

export function addPortWatch(define: Define, server: ServerContext): void {
  define({
    method: 'POST',
    path: '/api/port-watch',
    summary: 'Waits for a port, and streams events: watching, then ready, process_exited or error.',
    body: watchBody,
    reply: 'events',
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ body, signal }) {
      const { statusMin = 100, statusMax = 599 } = body
      if (statusMin > statusMax)
        throw new OptionError('INVALID_OPTION', 'statusMax: must not be less than statusMin')
      const process =
        body.processId === undefined ? undefined : await requireProcess(server.backend, body.processId)
      const stop = new AbortController()
      const release = aborts.onAbort(signal, () => stop.abort())
      const { port, processId } = body
      const tell = (data: object): ServerEvent[] => [{ data: { ...data, port, processId, timestamp: now() } }]
      const steps = [
        async () => tell({ type: 'watching' }),
        async () => {
          try {
            return tell(await watch(body, process, stop.signal))
          } catch (error) {
            return tell(errorEvent(server, error, 'container'))
          }
        },
      ]
      return new EventStream({
        async next() {
          const step = steps.shift()
          if (step !== undefined) return { done: false, value: await step() }
          release()
          return { done: true, value: undefined }
        },
        async return() {
          release()
          stop.abort()
          return { done: true, value: undefined }
        },
      })
    },
  })
}

async function watch(
  body: Watch,
  process: backends.ProcessBackend | undefined,
  stop: AbortSignal,
): Promise<object> {
  if (process === undefined) return anybody(body, stop)
  const { port, mode, path, statusMin, statusMax, interval = DEFAULT_INTERVAL_MS } = body
  const page = mode === 'http' ? { path, status: { min: statusMin, max: statusMax } } : {}
  try {
    await process.waitForPort(plans.planWaitForPort(port, { mode, ...page, interval, signal: stop }))
    return { type: 'ready' }
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'PROCESS_EXITED_BEFORE_READY') throw error
    return { type: 'process_exited', exitCode: exitCodeOf(process.info) }
  }
}

/** Any listener counts: a container's clients may have started it without this server. */
async function anybody(body: Watch, stop: AbortSignal): Promise<object> {
  const { port, mode, path = '/', statusMin = 200, statusMax = 399, interval = DEFAULT_INTERVAL_MS } = body
  while (!stop.aborted) {
    if (mode === 'http') {
      const statusCode = await httpStatus(port, path, stop)
      if (statusCode !== undefined && statusCode >= statusMin && statusCode <= statusMax)
        return { type: 'ready', statusCode }
    } else if (await listens(port)) {
      return { type: 'ready' }
    }
    await pause(interval, stop)
  }
  return { type: 'error', error: 'the watch was given up' }
}

async function listens(port: number): Promise<boolean> {
  const answers = await Promise.all(ADDRESSES.map((host) => connects(host, port)))
  return answers.includes(true)
}

function connects(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: 1000 })
    const end = (answer: boolean) => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('connect', () => end(true))
    socket.on('timeout', () => end(false))
    socket.on('error', () => end(false))
  })
}
