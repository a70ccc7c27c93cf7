/** The ports on which the programs of a sandbox listen. */

import type { Duplex } from 'node:stream'
import { table } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { count } from '../schema/numbers.js'
import { number, orNull, reply, text, wordOf } from '../schema/reply.js'

/** A TCP port on which a program of a session listens. */
export interface OpenPort {
  port: number
  /** The address on which it listens, like '127.0.0.1', or '0.0.0.0' and '::' for all addresses. */
  address: string
  family: 'IPv4' | 'IPv6'
  /** The pid of the program, or of the oldest of those that share the port. */
  pid: number
  /** The first 1000 bytes of its command line. */
  command: string
  sessionId: string
  /** The id of the {@link Process} that the program belongs to; null for a program that a command has started. */
  processId: string | null
}

export const openPort = reply<OpenPort>(
  {
    port: number,
    address: text,
    family: wordOf('IPv4', 'IPv6'),
    pid: number,
    command: text,
    sessionId: text,
    processId: orNull(text),
  },
  'OpenPort',
)

/** A connection to a program of a session, for bytes in both directions: a `Duplex` of `node:stream`. */
export type PortConnection = Duplex

/** Options of {@link Session.listen}. */
export interface ListenOptions {
  /** The port of this machine to listen on, 0 to 65535; 0 = any free one. Default: 0. */
  local?: number
}

export const listenOptions = table<ListenOptions>()({ local: { ...count(0, 65_535), default: 0 } })

/** A port of this machine that leads to a port of a sandbox. */
export interface Forwarding {
  /** Like 'http://127.0.0.1:3000'. */
  readonly url: string
  /** The port on 127.0.0.1. */
  readonly port: number
  /** Ends the listener and its connections. Idempotent. */
  close(): void
}

/** Options of `SandboxClient.portUrl`. */
export interface PortUrlOptions {
  /** Milliseconds for which the URL works, 1 to 604800000 (a week). Default: 3600000 (an hour). */
  expiresIn?: number
  /** The session whose port it is. Default: the first session that listens on it: 'default', then the others by their ids. */
  sessionId?: string
}

export const portUrlOptions = table<PortUrlOptions>()({
  expiresIn: { ...count(1, 604_800_000, 'ms'), default: 3_600_000 },
  sessionId: identifier,
})
