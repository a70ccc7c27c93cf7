/** Compiled, never run: what the types of the client and the server allow and refuse. */

import { createServer, type Serving, serve } from '@nacre/server'
import type { AnySession, ExecResult, Process, Sandbox, SandboxError, Service } from 'nacre'
import { SandboxClient } from 'nacre/client'

/** Compiles only when both types are the same. */
function same<A, B>(..._proof: [A] extends [B] ? ([B] extends [A] ? [] : [never]) : [never]): void {}

export async function client(sandbox: Sandbox) {
  await using remote = new SandboxClient({
    url: 'http://127.0.0.1:4747',
    token: 'x',
    reconnectTimeout: 5,
    logger: console,
  })
  same<Awaited<ReturnType<typeof remote.exec>>, ExecResult>()
  const bytes = await remote.exec(['ls'], { encoding: 'buffer' })
  same<typeof bytes.all, Uint8Array>()
  same<typeof remote.execStream, typeof sandbox.execStream>()
  same<typeof remote.streamProcessLogs, typeof sandbox.streamProcessLogs>()
  same<Awaited<ReturnType<typeof remote.createSession>>, AnySession>()
  const { held } = await (await remote.createSession()).hold('a')
  same<typeof held, AnySession>()
  // @ts-expect-error: a stream to a port needs a sandbox in this process
  await (await remote.createSession()).connect(80)
  // @ts-expect-error: portUrl is the way to a port of a server
  await remote.forward(80)
  // @ts-expect-error: a server serves one sandbox
  await remote.fork()
  const process: Process = await remote.startProcess('ls', { input: 'pipe' })
  same<Awaited<ReturnType<typeof process.resize>>, boolean>()
  const service: Service = await remote.startService('ls', { healthCheck: { port: 80 } })
  await service.restart()
  await remote.jobs.start({ command: 'ls' })
  // @ts-expect-error: a server does not tell where its jobs are
  remote.jobs.root
  // @ts-expect-error: no server
  new SandboxClient()
  // @ts-expect-error: an option of exec only
  await remote.startProcess('ls', { check: true })
  return (error: SandboxError) => error.code === 'CONNECTION_FAILED'
}

export async function server(sandbox: Sandbox) {
  const { fetch, close } = createServer(sandbox, { token: 'x', allowedOrigins: ['https://example.com'] })
  const response: Response = await fetch(new Request('http://localhost/'), {})
  await close()
  await using serving: Serving = await serve(sandbox, {
    host: '::1',
    port: 0,
    tokenFile: '/x',
    shutdownTimeout: 5,
  })
  same<typeof serving.port, number>()
  // @ts-expect-error: an option of serve only
  createServer(sandbox, { port: 80 })
  return response.status
}
