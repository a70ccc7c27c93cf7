/**
 * Tells a caller's logger something. A logger that throws has nobody to tell, and must not make a failure of a command
 * that was none, or get into the callback of the engine's events.
 */
import type { Logger } from '../public/index.js'

export function report(logger: Logger | undefined, level: keyof Logger, message: string): void {
  try {
    logger?.[level](message)
  } catch {
    // See above.
  }
}
