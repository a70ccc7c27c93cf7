/** The result of a command. */

import type { Encoding, Output, SignalName } from '../base/types.js'
import {
  boolean,
  decodeOutput,
  list,
  number,
  optional,
  orNull,
  output,
  reply,
  text,
  unlessNull,
} from '../schema/reply.js'
import { type KilledBy, killedBy, signalName } from './exit.js'
import { type Denial, denial } from './isolation.js'
import type { Process } from './process.js'

/** The result of a command. */
export interface ExecResult<E extends Encoding = 'utf8', L extends boolean = false> {
  /** Whether the command exited by itself with code 0. */
  success: boolean
  /** null when the command has no exit code, because a signal ended it, it never ran, or it still runs as `process`. */
  exitCode: number | null
  /** The signal that ended the command, if one did. Real-time signals are called 'SIGRTMIN' and 'SIGRTMIN+1' to '+30'. */
  signal: SignalName | null
  stdout: Output<E, L>
  stderr: Output<E, L>
  /**
   * stdout and stderr in the order in which they were read, which is exact only with `mergeOutput`. Computed on first
   * access.
   */
  all: Output<E, L>
  /** The command. An argument list is quoted as for a shell. */
  command: string
  sessionId: string
  /** The session's directory after the command. */
  cwd: string
  /** Milliseconds that the command ran, by a monotonic clock. */
  duration: number
  /** When it started. */
  timestamp: string
  /**
   * What the command has used. Absent if that is not known: in plain mode, for a command that never ran, or that has ended its
   * shell otherwise than with `exit`.
   */
  usage?: Usage
  timedOut: boolean
  cancelled: boolean
  /** What has killed the command; null if nothing did. */
  killedBy: KilledBy | null
  /**
   * Number of bytes missing in the middle of each stream because of `maxBuffer`; null when both are complete. Text
   * marks the gap with a separate line like `[48,694 bytes omitted]`, between whole lines if possible. Bytes have no
   * mark.
   */
  truncated: null | { stdout: number; stderr: number }
  /**
   * The position of the gap in each stream: the number of bytes kept before it. 0 for a complete stream; null when both
   * are complete.
   */
  truncatedAt: null | { stdout: number; stderr: number }
  /**
   * Whether the shell was replaced, as after `exec` or `kill -9 $$`. The new shell has the state after the last
   * finished command.
   */
  sessionRestarted: boolean
  /**
   * Items of the session's state that could not be restored before the command: after shell and standby had both died,
   * or in plain mode. Absent if there are none.
   */
  lostState?: LostState[]
  /**
   * What `isolation` refused, each once: at most 100 connections and requests while the command ran, including those of background
   * processes of the session; at most 20 files that it names in its standard error, if it has failed; and what is `withheld`.
   */
  denials: Denial[]
  /**
   * Keys of git's config that programs have changed in the session's copy, and that the machine's file did not get, like
   * `core.fsmonitor`; `*` for a copy that cannot be read. At most 100, which are in `denials`, too. Absent if there are none.
   */
  withheld?: string[]
  /** The process that the command has become because of `detachAfter`. Absent otherwise. */
  process?: Process
}

/**
 * What a command has used: its shell, and its programs that have ended and were waited for, as getrusage(2) has it. What goes on in
 * the background counts for the command that waits for it.
 */
export interface Usage {
  /** Processor time in ms, of all processors together. */
  cpuMs: number
  /** Bytes read from disks. What was in memory already is none. */
  readBytes: number
  /** Bytes written to files of disks, perhaps later. */
  writtenBytes: number
  /**
   * Bytes that the programs of the session have sent meanwhile, those of background processes too. Absent unless the network goes
   * through the proxy of a list of hosts (`isolation.network`): nothing else counts them for one session.
   */
  sentBytes?: number
  /** Bytes that they have received. */
  receivedBytes?: number
}

export const usage = reply<Usage>(
  {
    cpuMs: number,
    readBytes: number,
    writtenBytes: number,
    sentBytes: { ...optional(number), description: 'Absent unless the network goes through a proxy.' },
    receivedBytes: optional(number),
  },
  'Usage',
)

const perStream = orNull(reply({ stdout: number, stderr: number }))

/** Without `process`, which is sent beside it. */
export const execResult = reply<Omit<ExecResult<Encoding>, 'process'>>(
  {
    success: boolean,
    exitCode: orNull(number),
    signal: orNull(signalName),
    command: text,
    sessionId: text,
    cwd: text,
    duration: number,
    timestamp: text,
    usage: { ...optional(usage), description: 'Absent if it is not known.' },
    timedOut: boolean,
    cancelled: boolean,
    killedBy: unlessNull(killedBy),
    truncated: { ...perStream, description: 'Number of bytes missing in each stream.' },
    truncatedAt: { ...perStream, description: 'Number of bytes before the gap in each stream.' },
    sessionRestarted: boolean,
    denials: list(denial),
    withheld: optional(list(text)),
    lostState: {
      ...optional(list(reply<LostState>({ kind: text, name: text, reason: text }))),
      description: 'Items of the state that could not be restored before the command.',
    },
    stdout: output,
    stderr: output,
    // It would double the size of the reply.
    all: {
      ...output,
      description: 'Omitted if one of the two streams is empty.',
      isOptional: true,
      isSent: ({ stdout, stderr }: ExecResult<Encoding>) => stdout.length > 0 && stderr.length > 0,
      decode(json, encoding, { stdout, stderr }: ExecResult<Encoding>) {
        if (json !== undefined) return decodeOutput(json, encoding)
        return stdout.length > 0 ? stdout : stderr
      },
    },
  },
  'Result',
)

/** An item of a session's state that was lost: a variable, a function, the directory, ... */
export interface LostState {
  /** What it is, such as `variable`, `function`, `completion`, `limit` or `directory`; `state` if it is all of it. */
  kind: string
  name: string
  /** Why it could not be restored, in English. */
  reason: string
}
