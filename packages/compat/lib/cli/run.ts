/** `nacre-compat`: a server until a signal, or for one command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import { OptionError } from 'nacre/internal'
import { exitCodeOfEnd, onSignals, printing } from 'nacre/internal/cli'
import { serveDaytona } from '../daytona/serve.js'
import { serveE2b } from '../e2b/serve.js'
import type { E2bOptions, ServingDaytona, ServingE2b } from '../public.js'
import { defaultRoot } from '../root.js'

export interface Flags {
  /** True without a port. */
  e2b?: number | true
  daytona?: number | true
  root?: string
  isolation: NonNullable<E2bOptions['isolation']>
  maxSandboxes?: number
}

type Api = 'e2b' | 'daytona'
type Serving = ServingE2b | ServingDaytona

const APIS: Record<Api, { name: string; serve(options: E2bOptions): Promise<Serving> }> = {
  e2b: { name: 'E2B', serve: serveE2b },
  daytona: { name: 'Daytona', serve: serveDaytona },
}

/** Resolves with the exit code. */
export async function run(command: string[], flags: Flags): Promise<number> {
  const apis = (Object.keys(APIS) as Api[]).filter((api) => flags[api] !== undefined)
  if (apis.length === 0) throw new OptionError('INVALID_OPTION', '--e2b or --daytona must be given')
  const signals = new Signals()
  const servers: Serving[] = []
  try {
    for (const api of apis) servers.push(await serve(api, flags, apis.length > 1, command.length > 0))
    const env = Object.assign({}, ...servers.map((server) => server.env))
    if (command.length > 0) return await runCommand(command, env, signals)
    for (const [at, api] of apis.entries())
      await printing.printLine(describe(APIS[api].name, servers[at] as Serving))
    await signals.first
    return 0
  } finally {
    await Promise.all(servers.map((server) => server.close()))
  }
}

function serve(api: Api, flags: Flags, isOneOfMany: boolean, isForCommand: boolean): Promise<Serving> {
  const { root, isolation, maxSandboxes } = flags
  const port = flags[api]
  if (typeof port === 'number' && port > 65_535)
    throw new OptionError('INVALID_OPTION', `--${api} must be a port from 0 to 65535, not ${port}`)
  const own = isOneOfMany && root !== undefined ? path.join(root, api) : root
  return APIS[api].serve({
    port: typeof port === 'number' ? port : isForCommand ? 0 : undefined,
    root: own ?? (isForCommand ? undefined : defaultRoot(api)),
    isolation,
    maxSandboxes,
    logger: printing.stderrLogger,
  })
}

/** Signals to this process. Each is kept until something reacts to it; the second ends this process if nothing does. */
class Signals {
  readonly first: Promise<NodeJS.Signals>
  react: ((signal: NodeJS.Signals) => void) | undefined
  received: NodeJS.Signals | undefined

  constructor() {
    this.first = new Promise((resolve) => {
      onSignals((signal) => {
        if (this.react !== undefined) return this.react(signal)
        if (this.received !== undefined) process.exit(exitCodeOfEnd(null, signal))
        this.received = signal
        resolve(signal)
      })
    })
  }
}

/** Runs it with the variables. Resolves with its exit code. */
async function runCommand(
  [file = '', ...args]: string[],
  env: Record<string, string>,
  signals: Signals,
): Promise<number> {
  if (signals.received !== undefined) return exitCodeOfEnd(null, signals.received)
  const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  signals.react = (signal) => void child.kill(signal)
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return exitCodeOfEnd(code, signal)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_COMMAND', `${file} cannot be run: ${code}`, { cause })
  } finally {
    signals.react = undefined
  }
}

function describe(name: string, { url, env }: Serving): string {
  const lines = Object.entries(env).map(([name, value]) => `export ${name}=${value}`)
  return [
    `# The API of ${name} listens on ${url}. Set these variables where your program runs:`,
    ...lines,
  ].join('\n')
}
