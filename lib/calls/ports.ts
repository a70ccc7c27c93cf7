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

/** Options of `forward` of a sandbox in a container. */
export interface ForwardOptions {
  /**
   * The port of this machine to listen on, 0 to 65535; 0 = any free one. Default: the same port, or a free one if it is taken:
   * it always is where the sandbox has the network of this machine.
   */
  local?: number
}

/** Options of {@link Sandbox.forward}. */
export interface SandboxForwardOptions extends ForwardOptions {
  /**
   * The session whose port it is. Default: for each connection, the first session that listens on it: 'default', then the others
   * by their ids.
   */
  sessionId?: string
}

const local = count(0, 65_535)

export const forwardOptions = table<ForwardOptions>()({ local })

export const sandboxForwardOptions = table<SandboxForwardOptions>()({ local, sessionId: identifier })

/**
 * A port of this machine that leads to a port of a sandbox. It ends with `close`, with the sandbox, and with the session that it
 * was made for: then the port is free, and its connections are closed. Like any server, it keeps
 * the event loop alive.
 */
export interface Forwarding extends AsyncDisposable {
  /** Like 'http://127.0.0.1:3000'. */
  readonly url: string
  /** The port on 127.0.0.1: that of `local`, or the one that was free. */
  readonly port: number
  /** Ends the listener and its connections. Resolves when the port is free. Never rejects. Idempotent. */
  close(): Promise<void>
  /** The same as `close`. */
  [Symbol.asyncDispose](): Promise<void>
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
