/**
 * Signals to this program while a command runs.
 */

const ASKING: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Calls `react` for each of them instead of exiting. Returns a function that restores everything. */
export function onSignals(react: (signal: NodeJS.Signals) => void): () => void {
  for (const signal of ASKING) process.on(signal, react)
  return () => {
    for (const signal of ASKING) process.off(signal, react)
  }
}

/**
 * Ctrl-Z stops this program, and the shell that it was started from takes over; `fg` and `bg` continue it. The command runs
 * in another session, where none of this arrives by itself: `pass` is called with SIGSTOP and SIGCONT for it. Returns
 * a function that restores everything.
 */
export function onSuspend(pass: (signal: NodeJS.Signals) => void): () => void {
  const stop = () => {
    pass('SIGSTOP')
    process.kill(process.pid, 'SIGSTOP')
  }
  const go = () => pass('SIGCONT')
  process.on('SIGTSTP', stop).on('SIGCONT', go)
  return () => {
    process.off('SIGTSTP', stop).off('SIGCONT', go)
  }
}
