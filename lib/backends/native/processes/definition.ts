/** What is kept of a service, so that the next sandbox of the same name starts it again. */
import { callSite } from '../../../base/call-site.js'
import type { NativeProcessStart } from '../../../boundary/index.js'
import type { ServiceRequest } from '../../../requests/service.js'

/** Raise it with every change of what is kept. */
const FORMAT = 1

/**
 * A service as text: undefined if it is never restarted, or has an input, which ends with this program. So do callbacks and
 * signals. `start` has the variables without the values of secrets.
 */
export function definitionOf(
  { process, healthCheck, restart, restartDelay }: ServiceRequest,
  { envNames: names, envValues: values, processId }: NativeProcessStart,
): string | undefined {
  if (restart === 'never' || process.values.input !== undefined) return undefined
  const { command, shown, sessionId, verbose, window } = process
  const env = names && { names, values }
  const kept = { ...process.values, env, processId, signal: undefined }
  // An expression is for matches, which nothing asks for.
  const check =
    healthCheck.kind === 'log'
      ? { ...healthCheck, pattern: { ...healthCheck.pattern, source: healthCheck.pattern.shown } }
      : healthCheck
  const known = { command, shown, sessionId, verbose, window, callbacks: {}, values: kept }
  return JSON.stringify({ format: FORMAT, process: known, healthCheck: check, restart, restartDelay })
}

/** Undefined for another format. */
export function serviceOf(definition: string): ServiceRequest | undefined {
  const { format, ...request }: ServiceRequest & { format: number } = JSON.parse(definition)
  if (format !== FORMAT) return undefined
  return { ...request, process: { ...request.process, site: callSite(serviceOf) } }
}
