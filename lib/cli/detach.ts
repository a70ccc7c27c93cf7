/**
 * Following a job until a signal arrives. The signal ends the program, and the job continues.
 */
import { exitCodeOfEnd } from './failure.js'
import { onSignals } from './signals.js'
import { note } from './terminal.js'

/** Returns the exit code of `follow`, or that of the signal. */
export async function followUntilSignal(
  id: string,
  follow: (stop: AbortSignal) => Promise<number>,
): Promise<number> {
  const stop = new AbortController()
  let detached: NodeJS.Signals | undefined
  const ignore = onSignals((signal) => {
    detached = signal
    stop.abort()
  })
  try {
    return await follow(stop.signal)
  } catch (error) {
    if (detached === undefined) throw error
    note(`no longer following job ${id}, which continues`)
    return exitCodeOfEnd(null, detached)
  } finally {
    ignore()
  }
}
