/**
 * sandboxd: the runtime standard of Kubernetes' agent-sandbox, over the same sandbox as nacre's own API. `serve` of
 * `@nacre/server` opens it, and has its options; this package has no API of its own.
 */

import { isLoopback, type OpenSandboxd } from '@nacre/server/internal'
import { clock, OptionError, path, report } from 'nacre/internal'
import { fs, NativeBackend } from 'nacre/internal/server'
import { type GrpcListener, listenGrpc } from './grpc.js'
import { listenRest, type RestListener } from './rest.js'
import { Runtime } from './runtime.js'

export const openSandboxd: OpenSandboxd = async (backend, plan) => {
  if (!(backend instanceof NativeBackend))
    throw new OptionError(
      'INVALID_OPTION',
      'sandboxd needs the copy of nacre that @nacre/sandboxd finds: keep nacre and @nacre/server out of the bundle',
    )
  const root = openRoot(plan.root)
  const runtime = new Runtime(backend, root, path.resolve(plan.root))
  let isServing = true
  const listeners: Array<GrpcListener | RestListener> = []
  try {
    const { metadataPrefix } = plan
    const startedAt = clock.performance.now()
    const rest = await listenRest(
      { runtime, metadataPrefix, startedAt, isServing: () => isServing },
      { ...plan, port: plan.restPort },
    )
    listeners.push(rest)
    const grpc = await listenGrpc(runtime, {
      ...plan,
      port: plan.grpcPort,
      maxCalls: plan.maxRequests,
    })
    listeners.push(grpc)
    backend.announce({
      names: ['SANDBOXD_GRPC_ADDR', 'SANDBOXD_REST_ADDR'],
      values: [addressOf(plan.host, grpc.port), addressOf(plan.host, rest.port)],
    })
    await runtime.open()
    const drain = () => {
      isServing = false
      grpc.drain()
    }
    const ignoreDestroy = backend.onDestroy(drain)
    const finish = async () => {
      ignoreDestroy()
      await Promise.all([rest.finish(), grpc.finish()])
    }
    const cut = () => {
      for (const listener of listeners) listener.cut()
    }
    if (!isLoopback(plan.host))
      report(
        plan.logger,
        'warn',
        `sandboxd has no authentication: whatever reaches ${plan.host}:${grpc.port} or :${rest.port} runs programs here`,
      )
    return {
      host: plan.host,
      grpcPort: grpc.port,
      restPort: rest.port,
      root,
      drain,
      finish,
      idle: async () => {
        await Promise.all([rest.idle(), grpc.idle()])
      },
      cut,
      abandon() {
        finish().catch(() => {})
        cut()
      },
    }
  } catch (error) {
    for (const listener of listeners) {
      listener.finish().catch(() => {})
      listener.cut()
    }
    throw error
  }
}

/** Makes the root if it is missing, and resolves its links. */
function openRoot(root: string): string {
  try {
    makeDirectory(root)
    const real = fs.realpathSync(root)
    if (!fs.statSync(real).isDirectory()) throw Object.assign(new Error(), { code: 'ENOTDIR' })
    return real
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `sandboxd.root ${root} cannot be made or opened: ${code}`, {
      cause,
    })
  }
}

/** With its parents. The option `recursive` of mkdir never returns where the system makes no directories, as in /proc. */
function makeDirectory(directory: string): void {
  try {
    fs.mkdirSync(directory)
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const parent = path.dirname(directory)
    if (code !== 'ENOENT' || parent === directory) throw error
    makeDirectory(parent)
    fs.mkdirSync(directory)
  }
}

/** Where programs in the sandbox reach a listener. */
function addressOf(host: string, port: number): string {
  if (host === '0.0.0.0') return `127.0.0.1:${port}`
  if (host === '::') return `[::1]:${port}`
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}
