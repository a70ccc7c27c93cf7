/**
 * `nacre exec --tty`: the command has a terminal of its own, which this program's terminal shows. Keys are passed on
 * one by one, including Ctrl-C and Ctrl-Z, and so are changes of the size.
 */
import { ownOnly } from '../base/own.js'
import type { AnySandbox, LogEvent, Process, ProcessExit } from '../calls/index.js'
import { exitCodeOfEnd, TIMED_OUT } from './failure.js'
import { onSignals } from './signals.js'
import { NOBODY_READS, write } from './terminal.js'

/** What sees the terminal. */
export interface Watcher {
  output(event: LogEvent<'buffer'>): void
  resize(size: Size): void
}

export interface Size {
  cols: number
  rows: number
}

export interface TerminalRun {
  cwd?: string
  env?: Record<string, string>
  timeout?: number
}

/** Runs a command, and resolves with its exit code. */
export async function runInTerminal(
  sandbox: Pick<AnySandbox, 'startProcess'>,
  command: string | string[],
  options: TerminalRun,
  watcher?: Watcher,
): Promise<number> {
  const { cwd, env, timeout } = ownOnly(options)
  const process = await sandbox.startProcess(command, { cwd, env, timeout, pty: terminalSize() })
  const release = connect(process, { onLeave: () => void process.kill().catch(() => {}), watcher })
  try {
    for await (const event of process.output({ encoding: 'buffer' })) {
      watcher?.output(event)
      if (event.type !== 'exit' && !(await write(stdout, event.data))) return NOBODY_READS
    }
    return exitCodeOfProcess(await process.waitForExit())
  } finally {
    release()
  }
}

export function exitCodeOfProcess({ exitCode, signal, reason }: ProcessExit): number {
  if (reason === 'timeout') return TIMED_OUT
  return exitCodeOfEnd(exitCode, signal)
}

const { stdin, stdout } = globalThis.process

/** The size of this program's terminal; the default size without a terminal. */
export function terminalSize(): Size {
  const { columns, rows } = stdout
  return { cols: columns || 80, rows: rows || 24 }
}

interface Connection {
  /** A signal to this program, or the key to leave. */
  onLeave(): void
  /** Whether what is typed has the key to leave. Default: there is none. */
  isLeave?: (data: Buffer) => boolean
  watcher?: Watcher
}

/**
 * Passes on input, changes of the size and signals. Without a process, only the key to leave counts. Returns a function that
 * restores everything.
 */
export function connect(
  process: Process | undefined,
  { onLeave, isLeave = () => false, watcher }: Connection,
): () => void {
  const isTerminal = stdin.isTTY === true
  if (isTerminal) stdin.setRawMode(true)
  // The process may end at any moment, which is not an error.
  const ignore = () => {}
  const type = (data: Buffer) => {
    if (isLeave(data)) return onLeave()
    if (process === undefined) return
    stdin.pause()
    const resume = () => void stdin.resume()
    process.write(data).then(resume, resume)
  }
  const end = () => void process?.closeInput().catch(ignore)
  const resize = () => {
    const size = terminalSize()
    watcher?.resize(size)
    process?.resize(size.cols, size.rows).catch(ignore)
  }
  stdin.on('data', type).on('end', end)
  stdout.on('resize', resize)
  const unhear = onSignals(onLeave)
  return () => {
    unhear()
    stdout.off('resize', resize)
    stdin.off('data', type).off('end', end).pause()
    if (isTerminal) stdin.setRawMode(false)
    // A terminal that is still being read keeps the event loop alive.
    stdin.unref?.()
  }
}
