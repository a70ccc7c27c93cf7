/** The public form of a command that runs or waits. */
import type { NativeRunning } from '../../boundary/index.js'
import type { RunningCommand } from '../../calls/index.js'

export function runningCommand(native: NativeRunning, heldBy: string | null): RunningCommand {
  const { id, command, startedAt, pid = null, stdoutBytes = 0, stderrBytes = 0, lastOutputAt } = native
  const dateOf = (time: number | undefined) => (time === undefined ? null : new Date(time))
  return {
    id: String(id),
    timestamp: dateOf(startedAt)?.toISOString() ?? null,
    ...{ command, pid, stdoutBytes, stderrBytes },
    lastOutputAt: dateOf(lastOutputAt),
    heldBy,
  }
}
