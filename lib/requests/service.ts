/**
 * Checks the options of startService: those of a process, plus its readiness and restarts.
 */
import { invalidOption } from '../base/errors.js'
import { ownOnly } from '../base/own.js'
import { serviceOptions, sessionServiceOptions } from '../calls/service.js'
import { portOptions } from '../calls/waits.js'
import { type CheckedCommand, readCommand, refuseArguments, showCommand } from '../schema/command.js'
import { portNumber } from '../schema/http.js'
import type { OptionValues } from '../schema/kind.js'
import { milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { readArgument, readEntries, readGroup, readOptions, refusal, unknownOption } from '../schema/read.js'
import { type ProcessRequest, processRequest } from './process.js'
import { type LinePattern, linePattern, type PortProbe, portProbe } from './waits.js'

/** When a service counts as ready. `timeout` applies to all attempts together, in milliseconds; 0 = none. */
export type HealthCheck = { timeout: number } & (
  | { kind: 'port'; probe: PortProbe }
  | { kind: 'log'; pattern: LinePattern }
  | { kind: 'command'; command: CheckedCommand; shown: string; interval: number }
)

/** A service. */
export interface ServiceRequest {
  process: ProcessRequest
  healthCheck: HealthCheck
  restart: 'never' | 'on-failure'
  /** Milliseconds before the first restart; each further restart doubles the delay. */
  restartDelay: number
}

const DEFAULT_READY_TIMEOUT_MS = 30_000
const DEFAULT_COMMAND_INTERVAL_MS = 500

const KINDS = '{ port }, { log } or { command }'

/** The options of all kinds. */
const CHECK_OPTIONS = ['port', 'log', 'command', ...Object.keys(portOptions), 'timeout']

const allOptions = { ...serviceOptions, healthCheck }
const allSessionOptions = { ...sessionServiceOptions, healthCheck }

/** Checks the arguments, where `healthCheck` is required; in a session, `session` is given. Throws OptionError. */
export function readService(command: unknown, options: unknown, session?: string): ServiceRequest {
  const checked = readArgument(readCommand, command, 'command')
  refuseArguments(options, session === undefined ? 'startService' : 'session.startService')
  const given: OptionValues<typeof allOptions> =
    session === undefined
      ? readOptions(allOptions, options, 'startService')
      : readOptions(allSessionOptions, options, 'session.startService')
  const { healthCheck: check, restart, restartDelay, ...values } = given
  if (check === undefined) throw invalidOption(`healthCheck must be given: ${KINDS}`)
  return {
    process: processRequest(checked, ownOnly(values), session),
    healthCheck: check,
    restart: restart ?? serviceOptions.restart.default,
    restartDelay: restartDelay ?? serviceOptions.restartDelay.default,
  }
}

/** Exactly one of port, log and command is required; it decides which other options are valid. */
export function healthCheck(value: unknown, name: string): HealthCheck {
  if (typeof value !== 'object') throw refusal(name, `must be ${KINDS}`, value)
  const given = ownOnly(Object.fromEntries(readEntries(value, name)))
  const kinds = ['port', 'log', 'command'].filter((kind) => given[kind] !== undefined)
  const unknown = Object.keys(given).find((option) => !CHECK_OPTIONS.includes(option))
  if (kinds.length !== 1 && unknown !== undefined)
    throw invalidOption(`${name} has ${unknownOption(unknown, CHECK_OPTIONS)}`)
  if (kinds.length !== 1) throw invalidOption(`${name} must have exactly one of port, log and command`)
  if (kinds[0] === 'port') return portCheck(given, name)
  return kinds[0] === 'log' ? logCheck(given, name) : commandCheck(given, name)
}

function portCheck(given: object, name: string): HealthCheck {
  const table = { port: portNumber.read, ...portOptions, timeout: milliseconds }
  const { port = 0, timeout = DEFAULT_READY_TIMEOUT_MS, ...how } = readGroup(table, given, name)
  return { kind: 'port', probe: portProbe(port, ownOnly(how)), timeout }
}

function logCheck(given: object, name: string): HealthCheck {
  const table = { log: linePattern, timeout: milliseconds }
  const { log, timeout = DEFAULT_READY_TIMEOUT_MS } = readGroup(table, given, name)
  return { kind: 'log', pattern: log as LinePattern, timeout }
}

function commandCheck(given: object, name: string): HealthCheck {
  const table = { command: readCommand, interval: positiveMilliseconds, timeout: milliseconds }
  const values = readGroup(table, given, name)
  const command = values.command as CheckedCommand
  return {
    kind: 'command',
    command,
    shown: showCommand(command),
    interval: values.interval ?? DEFAULT_COMMAND_INTERVAL_MS,
    timeout: values.timeout ?? DEFAULT_READY_TIMEOUT_MS,
  }
}
