/** The process groups of programs that this program starts. */
import type { ChildProcess } from 'node:child_process'

/** Milliseconds that the outputs of an ended program may stay open: another program may have them. */
export const LAST_WORDS_MS = 500

/** Kills a child that leads a process group with everything in it: a shell may wait for what it has started. */
export function killGroup({ pid, exitCode, signalCode }: ChildProcess): void {
  if (pid === undefined || exitCode !== null || signalCode !== null) return
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, 'SIGKILL')
  } catch {
    // It has just ended.
  }
}
