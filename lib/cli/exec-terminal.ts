/**
 * `nacre exec --tty`: the command has a terminal of its own, which this program's terminal shows. Keys are passed on
 * one by one, including Ctrl-C and Ctrl-Z, and so are changes of the size.
 */
import { signalNumber } from '../base/signals.js'
import type { AnySandbox, LogEvent, Process } from '../calls/index.js'
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

/** Runs a command, and resolves with its exit code. */
export async function runInTerminal(
  sandbox: AnySandbox,
  command: string | string[],
  { cwd, timeout }: { cwd?: string; timeout?: number },
  watcher?: Watcher,
): Promise<number> {
  const process = await sandbox.startProcess(command, { cwd, timeout, pty: terminalSize() })
  const release = connect(process, watcher)
  try {
    for await (const event of process.output({ encoding: 'buffer' })) {
      watcher?.output(event)
      if (event.type !== 'exit' && !(await write(stdout, event.data))) return NOBODY_READS
    }
    const { exitCode, signal, reason } = await process.wait()
    if (reason === 'timeout') return TIMED_OUT
    return exitCodeOfEnd(exitCode, signal === null ? undefined : signalNumber(signal))
  } finally {
    release()
  }
}

const { stdin, stdout } = globalThis.process

/** The size of this program's terminal; the default size without a terminal. */
export function terminalSize(): Size {
  const { columns, rows } = stdout
  return { cols: columns || 80, rows: rows || 24 }
}

/** Passes on input, changes of the size and signals. Returns a function that restores everything. */
function connect(process: Process, watcher: Watcher | undefined): () => void {
  const isTerminal = stdin.isTTY === true
  if (isTerminal) stdin.setRawMode(true)
  // The process may end at any moment, which is not an error.
  const ignore = () => {}
  const type = (data: Buffer) => {
    stdin.pause()
    process.write(data).then(() => stdin.resume(), ignore)
  }
  const end = () => void process.closeInput().catch(ignore)
  const resize = () => {
    const size = terminalSize()
    watcher?.resize(size)
    process.resize(size.cols, size.rows).catch(ignore)
  }
  stdin.on('data', type).on('end', end)
  stdout.on('resize', resize)
  const unhear = onSignals(() => void process.kill().catch(ignore))
  return () => {
    unhear()
    stdout.off('resize', resize)
    stdin.off('data', type).off('end', end).pause()
    if (isTerminal) stdin.setRawMode(false)
    // A terminal that is still being read keeps the event loop alive.
    stdin.unref?.()
  }
}
