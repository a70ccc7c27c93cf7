/** `nacre-compat`: a server until a signal, or for one command. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import os from 'node:os'
import path from 'node:path'
import { OptionError, signalNumber } from 'nacre/internal'
import { exitCodeOfEnd, onSignals, printLine, stderrLogger } from 'nacre/internal/cli'
import type { E2bOptions, ServingE2b } from '../public.js'
import { serveE2b } from '../serve.js'

export interface Flags {
  /** True without a port. */
  e2b: number | true
  root?: string
  isolation: NonNullable<E2bOptions['isolation']>
  maxSandboxes?: number
}

/** Resolves with the exit code. */
export async function run(command: string[], flags: Flags): Promise<number> {
  const { e2b, root, isolation, maxSandboxes } = flags
  const isForCommand = command.length > 0
  const signals = new Signals()
  const serving = await serveE2b({
    port: e2b === true ? (isForCommand ? 0 : undefined) : e2b,
    root: root ?? (isForCommand ? undefined : defaultRoot()),
    isolation,
    maxSandboxes,
    logger: stderrLogger,
  })
  try {
    if (isForCommand) return await runCommand(command, serving, signals)
    await printLine(describe(serving))
    await signals.first
    return 0
  } finally {
    await serving.close()
  }
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
        if (this.received !== undefined) process.exit(exitCodeOfEnd(null, signalNumber(signal)))
        this.received = signal
        resolve(signal)
      })
    })
  }
}

/** Runs it with the variables. Resolves with its exit code. */
async function runCommand(
  [file = '', ...args]: string[],
  { env }: ServingE2b,
  signals: Signals,
): Promise<number> {
  if (signals.received !== undefined) return exitCodeOfEnd(null, signalNumber(signals.received))
  const child = spawn(file, args, { stdio: 'inherit', env: { ...process.env, ...env } })
  signals.react = (signal) => void child.kill(signal)
  try {
    const [code, signal] = (await once(child, 'exit')) as [number | null, NodeJS.Signals | null]
    return exitCodeOfEnd(code, signal === null ? undefined : signalNumber(signal))
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_COMMAND', `${file} cannot be run: ${code}`, { cause })
  } finally {
    signals.react = undefined
  }
}

function describe({ url, env }: ServingE2b): string {
  const lines = Object.entries(env).map(([name, value]) => `export ${name}=${value}`)
  return [`# The API of E2B listens on ${url}. Set these variables where your program runs:`, ...lines].join(
    '\n',
  )
}

function defaultRoot(): string {
  const state = process.env.XDG_STATE_HOME || path.join(os.homedir(), '.local', 'state')
  return path.join(state, 'nacre', 'e2b')
}
