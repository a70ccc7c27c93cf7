/**
 * The options of createServer and serve.
 */
import { OptionError } from '../base/errors.js'
import { byteCount, interval, milliseconds, wholeNumber } from '../options/numbers.js'
import type { OptionValues } from '../options/option.js'
import { filePath } from '../options/paths.js'
import { describe, readOptions } from '../options/read.js'
import { flag, logger } from '../options/values.js'

/** A token that can be guessed is none. */
const LEAST_TOKEN_CHARACTERS = 16

const serverOptions = {
  token,
  allowedOrigins: origins,
  maxBodyBytes: byteCount,
  maxRequests: wholeNumber(1, 1_000_000),
  heartbeat: interval,
  logger,
}

const serveOptions = {
  ...serverOptions,
  host: hostName,
  port: wholeNumber(0, 65_535),
  tokenFile: filePath,
  maxHeaderBytes: wholeNumber(1024, 1024 * 1024),
  maxConnections: wholeNumber(1, 1_000_000),
  headersTimeout: interval,
  requestTimeout: interval,
  keepAliveTimeout: interval,
  shutdownTimeout: milliseconds,
  handleSignals: flag,
}

export type ServerValues = OptionValues<typeof serverOptions>

export interface ServerPlan {
  token: string | undefined
  /** Origins of pages that may call; none by default. */
  allowedOrigins: string[]
  maxBodyBytes: number
  maxRequests: number
  /** Milliseconds. */
  heartbeat: number
  logger: ServerValues['logger']
}

export interface ServePlan {
  server: ServerPlan
  host: string
  port: number
  tokenFile: string | undefined
  maxHeaderBytes: number
  maxConnections: number
  headersTimeout: number
  requestTimeout: number
  keepAliveTimeout: number
  shutdownTimeout: number
  handleSignals: boolean
}

/** Checks the options of `createServer`. Throws OptionError. */
export function planServer(options: unknown): ServerPlan {
  return serverPlan(readOptions(serverOptions, options, 'createServer'))
}

/** Checks the options of `serve`. Throws OptionError. */
export function planServe(options: unknown): ServePlan {
  const values = readOptions(serveOptions, options, 'serve')
  if (values.token !== undefined && values.tokenFile !== undefined)
    throw new OptionError('INVALID_OPTION', 'token and tokenFile exclude each other')
  return {
    server: serverPlan(values),
    host: values.host ?? '127.0.0.1',
    port: values.port ?? 4747,
    tokenFile: values.tokenFile,
    maxHeaderBytes: values.maxHeaderBytes ?? 16 * 1024,
    maxConnections: values.maxConnections ?? 2048,
    headersTimeout: values.headersTimeout ?? 10_000,
    requestTimeout: values.requestTimeout ?? 60_000,
    keepAliveTimeout: values.keepAliveTimeout ?? 5000,
    shutdownTimeout: values.shutdownTimeout ?? 10_000,
    handleSignals: values.handleSignals ?? true,
  }
}

function serverPlan(values: ServerValues): ServerPlan {
  return {
    token: values.token,
    allowedOrigins: values.allowedOrigins ?? [],
    maxBodyBytes: values.maxBodyBytes ?? 16 * 1024 * 1024,
    maxRequests: values.maxRequests ?? 1024,
    heartbeat: values.heartbeat ?? 15_000,
    logger: values.logger,
  }
}

/** Checks what is to be served, also by callers without types. Throws OptionError. */
export function checkSandbox(sandbox: unknown): void {
  const methods = ['exec', 'execStream', 'startProcess', 'createSession', 'listProcesses']
  const has = (name: string) =>
    typeof (sandbox as Record<string, unknown> | null | undefined)?.[name] === 'function'
  if (!methods.every(has))
    throw new OptionError('INVALID_OPTION', `sandbox must be a Sandbox, not ${describe(sandbox)}`)
}

/** What can stand in a header, and cannot be guessed. The message never has it. */
export function token(value: unknown, name: string): string {
  if (typeof value === 'string' && value.length >= LEAST_TOKEN_CHARACTERS && /^[\x21-\x7e]+$/.test(value))
    return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be at least ${LEAST_TOKEN_CHARACTERS} characters of printable ASCII without blanks`,
  )
}

/** Names of origins as browsers send them. '*' is none: it would let every page on the web run commands. */
function origins(value: unknown, name: string): string[] {
  const list: unknown[] = Array.isArray(value) ? Array.from(value) : [value]
  return list.map((item) => {
    if (typeof item === 'string' && URL.canParse(item) && new URL(item).origin === item) return item
    throw new OptionError(
      'INVALID_OPTION',
      `${name} must have origins like 'https://example.com' only, not ${describe(item)}`,
    )
  })
}

function hostName(value: unknown, name: string): string {
  if (typeof value === 'string' && /^[A-Za-z0-9.:_-]{1,255}$/.test(value)) return value
  throw new OptionError('INVALID_OPTION', `${name} must be a host name or an address, not ${describe(value)}`)
}
