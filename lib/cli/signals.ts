/**
 * Signals to this program while something is under way.
 */

const ASKING: NodeJS.Signals[] = ['SIGINT', 'SIGTERM', 'SIGHUP']

/** Calls `react` for each of them instead of ending; the function it gives sets everything back. */
export function onSignals(react: (signal: NodeJS.Signals) => void): () => void {
  for (const signal of ASKING) process.on(signal, react)
  return () => {
    for (const signal of ASKING) process.off(signal, react)
  }
}

/**
 * Ctrl-Z stops this program, and the shell that it was started from takes over; `fg` and `bg` continue it. The command runs
 * in another session, where none of this arrives by itself: `pass` is called with SIGSTOP and SIGCONT for it. The function
 * that this gives sets everything back.
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
