/**
 * The health check of a service: awaited at the start, and repeated on request.
 */
import { within } from '../../../base/waiting.js'
import type { HealthCheck } from '../../../requests/service.js'
import type { Engine } from '../engine.js'
import type { ProcessPlan, ServicePlan } from '../plan/process.js'
import { isOver, type ProcessHandle } from './handle.js'
import { ATTEMPT_MS, succeedsHidden } from './hidden-command.js'
import { serves, waitForPort } from './wait-for-port.js'
import { waitForLog, waitUntil } from './waits.js'

type CommandCheck = HealthCheck & { kind: 'command' }

/** Resolves when the check first passes. Rejects if it does not pass in time, or the process ends. */
export async function waitUntilHealthy(
  handle: ProcessHandle,
  { healthCheck, process }: ServicePlan,
  signal: AbortSignal | undefined,
): Promise<void> {
  const limits = { timeout: healthCheck.timeout, signal }
  if (healthCheck.kind === 'port') {
    await waitForPort(handle, { ...healthCheck.probe, ...limits })
  } else if (healthCheck.kind === 'log') {
    await waitForLog(handle, { pattern: healthCheck.pattern, cursor: 0, ...limits })
  } else {
    const { shown, interval } = healthCheck
    await waitUntil(handle, `\`${shown}\` succeeded`, { ...limits, interval }, (stop) =>
      succeeds(handle.engine, healthCheck, process, stop),
    )
  }
}

/** Whether the check passes now. For a check of the log: whether the process is running. */
export async function isHealthy(
  handle: ProcessHandle,
  { healthCheck, process }: ServicePlan,
): Promise<boolean> {
  if (isOver(handle.state)) return false
  if (healthCheck.kind === 'log') return true
  return within(
    { timeout: ATTEMPT_MS, signal: undefined },
    (stop) =>
      healthCheck.kind === 'port'
        ? serves(handle, healthCheck.probe, stop)
        : succeeds(handle.engine, healthCheck, process, stop),
    async () => false,
  )
}

/** Runs a check's command in the session, directory and environment of the service. */
async function succeeds(
  engine: Engine,
  check: CommandCheck,
  service: ProcessPlan,
  stop: AbortSignal,
): Promise<boolean> {
  const { sessionId, cwd, envNames, envValues } = service.request
  const surroundings = { sessionId, cwd, envNames, envValues }
  return succeedsHidden(engine, { ...surroundings, ...check.command, command: check.shown }, stop)
}
