/**
 * The end of `nacre serve` by a signal.
 */
import type { Logger, Sandbox } from 'nacre'
import { report, signalNumber } from 'nacre/internal'
import type { Serving } from '../public.js'
import { within } from '../within.js'
import type { Recording } from './recording.js'

/**
 * SIGTERM and SIGINT close the server, the recording and the sandbox, each within `shutdownTimeout` ms, and end this process: with code 0
 * when everything ended in time. A second signal ends it immediately. In both cases, too late and second signal, the exit code
 * is that of the signal.
 */
export function endOnSignals(
  { sandbox, serving, recording }: { sandbox: Sandbox; serving: Serving; recording: Recording | undefined },
  shutdownTimeout: number,
  logger: Logger,
): void {
  let isEnding = false
  const end = async (code: number) => {
    const isClosed = await serving.close()
    const isStored = await within(shutdownTimeout, recording?.close() ?? Promise.resolve())
    const isDestroyed = await within(shutdownTimeout, sandbox.destroy())
    if (isClosed && isStored && isDestroyed) process.exit(0)
    report(logger, 'warn', `not everything ended within ${shutdownTimeout} ms`)
    process.exit(code)
  }
  for (const name of ['SIGTERM', 'SIGINT'] as const) {
    const code = 128 + (signalNumber(name) ?? 0)
    process.on(name, () => {
      if (isEnding) process.exit(code)
      isEnding = true
      report(logger, 'info', `${name}: the server ends`)
      void end(code)
    })
  }
}
