/**
 * What a sandbox in this process, a client over HTTP and the session of nacre/container have in common: commands with
 * a result, and commands as streams. Adapters make their differences in form the same. The rest of the contract, which
 * a container's session does not have, is for the first two (helper.ts).
 */
import { constants } from 'node:os'
import { it } from 'vitest'
import type { Session } from '../helpers/container.js'
import { newSession } from '../helpers/drop-in.js'
import { type Expectations, type Workplace, withSandbox } from '../helpers/invariants.js'
import { type AnySandbox, withClient } from './helper.js'

export interface CommandOptions {
  cwd?: string
  env?: Record<string, string>
  /** Milliseconds. */
  timeout?: number
}

/** A result. One newline at the end of each output is removed; a signal is 128 and its number. */
export interface Outcome {
  stdout: string
  stderr: string
  exitCode: number
  command: string
  duration: number
  timestamp: string
}

export type StreamEvent =
  | { type: 'start'; pid: number | undefined }
  | { type: 'stdout' | 'stderr'; data: string }
  | { type: 'complete'; exitCode: number }
  | { type: 'error'; timedOut: boolean }

export interface CommandStream extends AsyncIterable<StreamEvent> {
  /** Kills the command with its tree; false when it has ended. */
  kill(): Promise<boolean>
}

export interface Commands {
  exec(command: string, options?: CommandOptions): Promise<Outcome>
  execStream(command: string, options?: CommandOptions): CommandStream
}

export interface CommandPlace {
  commands: Commands
  directory: string
}

/** Declares a test for a sandbox here, one behind a server, and the session of a container. */
export function itHoldsEverywhere(
  name: string,
  test: (place: CommandPlace) => Promise<void>,
  expectations?: Expectations,
): void {
  const inSandbox = (sandbox: AnySandbox, { directory }: Workplace) =>
    test({ commands: ofSandbox(sandbox), directory })
  it(`${name}, in this process`, () =>
    withSandbox((workplace) => inSandbox(workplace.sandbox, workplace), expectations))
  it(`${name}, over HTTP`, () =>
    withSandbox(
      (workplace) => withClient(workplace, (client) => inSandbox(client as unknown as AnySandbox, workplace)),
      expectations,
    ))
  it(`${name}, in a container`, () =>
    withSandbox(async (workplace) => {
      const session = newSession(workplace, { surviveExit: true })
      try {
        await session.initialize()
        await test({ commands: ofContainer(session), directory: workplace.directory })
      } finally {
        await session.destroy()
      }
    }, expectations))
}

function ofSandbox(sandbox: AnySandbox): Commands {
  return {
    async exec(command, options) {
      const result = await sandbox.exec(command, { ...options, stripFinalNewline: true })
      return { ...result, exitCode: codeOf(result) }
    },
    execStream(command, options) {
      const stream = sandbox.execStream(command, options)
      return {
        kill: () => stream.kill(),
        async *[Symbol.asyncIterator]() {
          for await (const event of stream) {
            if (event.type === 'start') yield { type: 'start', pid: event.pid }
            else if (event.type === 'complete') yield { type: 'complete', exitCode: codeOf(event) }
            else if (event.type === 'error')
              yield { type: 'error', timedOut: event.error.code === 'COMMAND_TIMEOUT' }
            else yield { type: event.type, data: event.data }
          }
        },
      }
    },
  }
}

function codeOf({ exitCode, signal }: { exitCode: number | null; signal: string | null }): number {
  return exitCode ?? 128 + (constants.signals[signal as NodeJS.Signals] ?? Number.NaN)
}

let streams = 0

function ofContainer(session: Session): Commands {
  const translated = ({ timeout, ...options }: CommandOptions = {}) => ({
    ...options,
    ...(timeout !== undefined && { timeoutMs: timeout }),
  })
  return {
    async exec(command, options) {
      const { timestamp, ...result } = await session.exec(command, translated(options))
      return { ...result, timestamp }
    },
    execStream(command, options) {
      const commandId = `stream-${++streams}`
      const events = session.execStream(command, { ...translated(options), commandId })
      return {
        kill: () => session.killCommand(commandId),
        async *[Symbol.asyncIterator]() {
          for await (const event of events) {
            if (event.type === 'start') yield { type: 'start', pid: event.pid }
            else if (event.type === 'complete') yield { type: 'complete', exitCode: event.exitCode }
            else if (event.type === 'error')
              yield { type: 'error', timedOut: /^Command timeout after \d+ms$/.test(event.error) }
            else yield { type: event.type, data: event.data }
          }
        },
      }
    },
  }
}
