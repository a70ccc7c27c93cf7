/** Looks at something again and again. */

const PAUSE_MS = 2000
/** The share of the time that is not spent with it. */
const REST = 10

/** Ends with `stop`. A page that cannot be seen does not look. */
export async function repeat(look: () => Promise<unknown>, stop: AbortSignal): Promise<void> {
  while (!stop.aborted) {
    const began = performance.now()
    // Whether the server answers, the header says.
    if (!document.hidden) await look().catch(() => {})
    const took = performance.now() - began
    await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE_MS, took * REST)))
  }
}
