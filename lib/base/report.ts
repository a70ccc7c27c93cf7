/**
 * Calls the caller's logger. An exception of the logger is dropped: it must neither fail a command nor reach the callback
 * that receives the engine's events.
 */
import type { Logger } from './types.js'

export function report(logger: Logger | undefined, level: keyof Logger, message: string): void {
  try {
    logger?.[level](message)
  } catch {
    // See above.
  }
}
