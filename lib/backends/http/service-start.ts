/**
 * Starts a service on the server.
 */
import type { CheckedCommand } from '../../options/command.js'
import { DEFAULT_SESSION } from '../../options/exec.js'
import { readArgument, readEntries } from '../../options/read.js'
import { type HealthCheck, readServiceOptions } from '../../options/service.js'
import { encodeOptions } from '../../protocol/codec.js'
import { encodeCommand } from '../../protocol/json.js'
import { serviceOptions } from '../../protocol/process-options.js'
import type { Place } from './calls.js'
import { remoteProcessPlan } from './plan.js'
import type { WireProcess } from './process.js'
import { RemoteService } from './service.js'
import { startRemote } from './start.js'

export async function startService(
  place: Place,
  command: CheckedCommand,
  options: unknown,
): Promise<RemoteService> {
  const { healthCheck, ...values } = readServiceOptions(options)
  const plan = remoteProcessPlan(command, values, values.sessionId ?? DEFAULT_SESSION)
  const given = new Map(readArgument(readEntries, options, 'the options of startService')).get('healthCheck')
  const { restart, restartDelay } = encodeOptions(serviceOptions, values)
  const body = { ...plan.body, restart, restartDelay, healthCheck: wireCheck(healthCheck, given) }
  // The server gives a service up when its client goes away while it is being started.
  const request = { path: '/v1/services', body, signal: plan.signal, subject: 'the process', waits: true }
  const start = () => place.connection.call<WireProcess>(request)
  return startRemote(place.connection, plan, start, (info) => {
    place.begun.addProcess(info, true)
    return new RemoteService(place.connection, info)
  })
}

/** A pattern is sent as it was given: what it was checked to is a function. */
function wireCheck(check: HealthCheck, given: unknown): object {
  const { timeout } = check
  if (check.kind === 'command')
    return { command: encodeCommand(check.command), interval: check.interval, timeout }
  if (check.kind === 'log') {
    const { log } = given as { log: string | RegExp }
    return { log: log instanceof RegExp ? { source: log.source, flags: log.flags } : log, timeout }
  }
  const { port, http, interval } = check.probe
  return { port, ...(http === undefined ? { mode: 'tcp' } : { mode: 'http', ...http }), interval, timeout }
}
