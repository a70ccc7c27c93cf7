/** The feed of events. */
import type { SandboxEvent } from '../calls/index.js'
import type { NativeKilledBy, NativeWaiting } from './process.js'

export interface NativeFeed {
  events: NativeFeedEvent[]
  /** How many events before them are no longer kept. */
  lost: number
  /** Nothing follows. */
  isOver: boolean
}

/** Which members are present depends on the kind. */
export interface NativeFeedEvent {
  cursor: number
  /** Milliseconds since the epoch. */
  time: number
  sessionId: string
  kind: Exclude<SandboxEvent['type'], 'lost'>
  id?: string
  command?: string
  pid?: number
  /** Bytes of both streams so far. */
  total?: number[]
  stdout?: Buffer
  stderr?: Buffer
  waiting?: NativeWaiting
  processId?: string
  exitCode?: number
  signal?: number
  reason?: 'exit' | 'signal' | 'timeout' | 'oom' | 'killed'
  killedBy?: NativeKilledBy
  duration?: number
  cwd?: string
  terminal?: boolean
  restarts?: number
  target?: string
}
