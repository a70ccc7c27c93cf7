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
