/**
 * The gRPC server: the process service, health and reflection.
 */

import * as grpc from '@grpc/grpc-js'
import { loadSync } from '@grpc/proto-loader'
import { ReflectionService } from '@grpc/reflection'
import { listenError } from '@nacre/server/internal'
import { HealthImplementation } from 'grpc-health-check'
import type { Logger } from 'nacre'
import { path } from 'nacre/internal'
import { Control, type ResizeRequest, type SendSignalRequest, type WriteStdinRequest } from './control.js'
import { Calls } from './handlers.js'
import { ProcessTable } from './process-table.js'
import type { Runtime } from './runtime.js'
import { execute, type RunRequest, type StartEvent, type StartRequest, start } from './start.js'

const SERVICE = 'process.v1.ProcessService'

/** The directory of the protocol, which is published for clients, too. */
const PROTO = path.resolve(import.meta.dirname, '../proto')

/** The largest message that a client may send, as is usual for gRPC. */
const MAX_MESSAGE_BYTES = 4 * 1024 * 1024

const OPTIONS = {
  'grpc.max_receive_message_length': MAX_MESSAGE_BYTES,
  'grpc.max_send_message_length': -1,
  // A client that has vanished without closing its connection is noticed, and its programs are killed.
  'grpc.keepalive_time_ms': 20_000,
  'grpc.keepalive_timeout_ms': 10_000,
}

export interface GrpcPlan {
  host: string
  port: number
  maxCalls: number
  logger: Logger | undefined
}

export interface GrpcListener {
  port: number
  /** Refuses calls from now on, and the health service reports that. */
  drain(): void
  /** Takes no more calls, and resolves when the running ones have ended. */
  finish(): Promise<void>
  /** Resolves when no call is being answered. */
  idle(): Promise<void>
  /** Cuts all connections. */
  cut(): void
}

/** Listens. Rejects with the error of the system. */
export async function listenGrpc(runtime: Runtime, plan: GrpcPlan): Promise<GrpcListener> {
  const definition = loadSync('process/v1/process.proto', {
    includeDirs: [PROTO],
    keepCase: true,
    enums: Number,
    defaults: true,
    oneofs: true,
  })
  const server = new grpc.Server(OPTIONS)
  const calls = new Calls(plan.maxCalls, plan.logger)
  addService(server, definition[SERVICE] as grpc.ServiceDefinition, runtime, calls)
  const status = new HealthImplementation({ '': 'SERVING', [SERVICE]: 'SERVING' })
  status.addToServer(server)
  new ReflectionService(definition, { services: [SERVICE] }).addToServer(server)
  const address = plan.host.includes(':') ? `[${plan.host}]:${plan.port}` : `${plan.host}:${plan.port}`
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync(address, grpc.ServerCredentials.createInsecure(), (cause, bound) => {
      if (cause === null) return resolve(bound)
      server.forceShutdown()
      reject(listenError(cause, plan, 'sandboxd.grpcPort'))
    })
  })
  return {
    port,
    drain() {
      calls.close()
      for (const name of ['', SERVICE]) status.setStatus(name, 'NOT_SERVING')
    },
    finish: () => new Promise((resolve) => server.tryShutdown(() => resolve())),
    idle: () => calls.idle(),
    cut: () => server.forceShutdown(),
  }
}

function addService(
  server: grpc.Server,
  definition: grpc.ServiceDefinition,
  runtime: Runtime,
  calls: Calls,
): void {
  const table = new ProcessTable()
  const control = new Control(table)
  server.addService(definition, {
    Start: calls.streaming<StartRequest, StartEvent>('Start', (request, send, signal) =>
      start(runtime, table, request, send, signal),
    ),
    Execute: calls.unary('Execute', (request: RunRequest, signal) => execute(runtime, request, signal)),
    WriteStdin: calls.unary('WriteStdin', (request: WriteStdinRequest) => control.writeStdin(request)),
    SendSignal: calls.unary('SendSignal', (request: SendSignalRequest) => control.sendSignal(request)),
    ResizeTTY: calls.unary('ResizeTTY', (request: ResizeRequest) => control.resize(request)),
  })
}
