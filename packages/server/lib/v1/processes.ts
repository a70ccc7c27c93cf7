/**
 * Background processes and services: starting, listing, ending.
 */
import { kinds, plans } from 'nacre/internal'
import { endpoints, protocol, tables } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { described } from '../document.js'
import { openInput, withInput } from '../open-input.js'
import { anyText } from '../parameters.js'
import { withInstance } from '../processes.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'
import { linePatternJson } from './pattern.js'
import { addSimpleCalls } from './simple-calls.js'

const timeout = kinds.milliseconds

/** One of three objects: the check reads which. */
const healthCheckJson: kinds.Kind<object, unknown> = {
  read: plans.healthCheck,
  json: {
    schema: {
      anyOf: [
        shape({ port: kinds.portNumber, ...described(tables.portOptions), timeout }, ['port']),
        shape({ log: linePatternJson, timeout }, ['log']),
        shape({ command: kinds.command, interval: kinds.positiveMilliseconds, timeout }, ['command']),
      ].map((schema) => ({ schema })),
    },
    rule: 'must be {"port": 8080}, {"log": "ready"} or {"command": "test -e ready"}, with options of that check',
  },
  bounds: 'an object',
}

const startBody = shape({ command: kinds.command, ...described(tables.processOptions), openInput }, [
  'command',
])

const serviceBody = shape(
  { command: kinds.command, ...described(tables.serviceOptions), openInput, healthCheck: healthCheckJson },
  ['command', 'healthCheck'],
)

const errors = [
  'HELD',
  'PROCESS_ALREADY_EXISTS',
  'SESSION_NOT_FOUND',
  'CWD_NOT_FOUND',
  'LIMIT_UNSUPPORTED',
  'ROLLED_BACK',
  'SPAWN_FAILED',
]

export function addV1Processes(define: Define, { backend, processes }: ServerContext): void {
  addSimpleCalls(define, protocol.processesCalls, () => backend)
  define({
    ...endpoints.startProcess,
    summary: 'Starts a process in the background.',
    body: startBody,
    errors,
    handle: async ({ body: { command, openInput, ...options }, hold }) =>
      processes.show(await processes.start(command, withInput(options, openInput), hold)),
  })
  define({
    ...endpoints.startService,
    summary: 'Starts a process and waits until its health check passes.',
    body: serviceBody,
    errors: [...errors, 'PROCESS_READY_TIMEOUT', 'PROCESS_EXITED_BEFORE_READY'],
    async handle({ body: { command, openInput, ...rest }, signal, hold }) {
      const options = withInput(rest, openInput)
      // A service whose client disconnected while it was starting would stay unknown.
      const start = new AbortController()
      const abandon = () => start.abort(signal.reason)
      signal.addEventListener('abort', abandon)
      try {
        const service = await processes.startService(command, { ...options, signal: start.signal }, hold)
        return processes.show(service)
      } finally {
        signal.removeEventListener('abort', abandon)
      }
    },
  })
  define({
    ...endpoints.listProcesses,
    summary: 'Lists the processes.',
    query: shape({
      status: { ...anyText, description: 'One status, or several separated by commas.' },
      sessionId: kinds.identifier,
    }),
    async handle({ query: { status, sessionId } }) {
      const found = await backend.listProcesses(plans.planFilter({ status: status?.split(','), sessionId }))
      return found.map((process) => processes.show(process))
    },
  })
  define({
    ...endpoints.getProcess,
    summary: 'Returns a process.',
    errors: ['PROCESS_NOT_FOUND', 'INVALID_ID'],
    handle: async ({ params }) => processes.show(await processes.find(params.processId)),
  })
  define({
    ...endpoints.killProcess,
    summary: 'Kills a process and everything that it started.',
    body: shape({ signal: kinds.killSignal, by: kinds.killer, ...described(tables.killOptions) }),
    errors: ['PROCESS_NOT_FOUND'],
    async handle({ params, body: { signal, by, ...options } }) {
      const process = await processes.find(params.processId)
      const killed = await process.kill({ ...plans.readKill(signal, options, 'kill'), by })
      return { killed, process: withInstance(process) }
    },
  })
}
