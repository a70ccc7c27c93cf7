/** What happens in a sandbox, for observers. */

import type { SignalName } from '../base/types.js'
import { table } from '../schema/kind.js'
import { count } from '../schema/numbers.js'
import { decodeOutput, encodeOutput, type Reply } from '../schema/reply.js'
import { abortSignal } from '../schema/signals.js'
import type { ExitReason, KilledBy, ProcessWaiting } from './exit.js'
import type { Denial, DenialReason } from './isolation.js'
import type { Answer, RequestLine } from './questions.js'
import type { Usage } from './result.js'

/** Options of {@link Sandbox.events}. */
export interface EventOptions {
  /**
   * The `cursor` of an event: the iteration begins after it. 0 begins with the oldest event that is kept. Default: only
   * new events.
   */
  since?: number
  /** Aborting makes the iteration throw an {@link AbortError}. */
  signal?: AbortSignal
}

export const eventOptions = table<EventOptions>()({
  since: count(0, Number.MAX_SAFE_INTEGER),
  signal: abortSignal,
})

/**
 * An event of {@link Sandbox.events}. `id` is that of a command, as in {@link Session.running}, or of a process. The text of a
 * command is cut as there.
 */
export type SandboxEvent = {
  /** Its number: 1 for the first event of the sandbox, and so on. */
  cursor: number
  time: Date
} & (
  | {
      /** The reader was too slow, or `since` is too old: this many events before the next one are no longer kept. */
      type: 'lost'
      count: number
    }
  | ({ sessionId: string } & (
      | { type: 'sessionStarted' | 'sessionEnded' }
      | {
          /** The command waits for those before it, or for the shell. One that begins at once has no such event. */
          type: 'commandQueued'
          id: string
          command: string
        }
      | { type: 'commandStarted'; id: string; command: string; pid: number }
      | {
          /** At most ten times a second. Only while something reads the events. */
          type: 'commandOutput'
          id: string
          /** The newest bytes since the last event, at most 64 KiB, as far as `maxBuffer` keeps them. */
          stdout: Uint8Array
          stderr: Uint8Array
          /** Bytes of all output so far. */
          stdoutBytes: number
          stderrBytes: number
        }
      | {
          /** A call like {@link Process.waiting} has found out that a program waits for input. */
          type: 'commandWaiting' | 'processWaiting'
          id: string
          waiting: ProcessWaiting
        }
      | {
          /** The command goes on as a process. */
          type: 'commandDetached'
          id: string
          processId: string
        }
      | {
          /** All are null or 0 for a command that never began. */
          type: 'commandEnded'
          id: string
          exitCode: number | null
          signal: SignalName | null
          killedBy: KilledBy | null
          /** Milliseconds. */
          duration: number
          stdoutBytes: number
          stderrBytes: number
          /** The session's directory after the command. */
          cwd: string
          /** As in the result of the command. */
          usage?: Usage
        }
      | {
          type: 'processStarted'
          id: string
          command: string
          pid: number
          /** The size of its terminal; null if it has none. */
          terminal: { cols: number; rows: number } | null
        }
      | {
          /** Its terminal has another size, by {@link Process.resize}. */
          type: 'processResized'
          id: string
          cols: number
          rows: number
        }
      | {
          type: 'processEnded'
          id: string
          exitCode: number | null
          signal: SignalName | null
          reason: ExitReason | null
          killedBy: KilledBy | null
        }
      | {
          /** A service runs again, as the process of the last `processStarted` with this id. */
          type: 'serviceRestarted'
          id: string
          restarts: number
        }
      | {
          /** Reported when the command that runs meanwhile has ended. */
          type: 'denied'
          denial: Denial
        }
      | {
          /** A request to a host with a secret or rules has ended. Only while something reads the events. */
          type: 'request'
          /** Host and port, like 'api.example.com:443'. */
          host: string
          method: string
          /** Without the query, at most 1000 characters. */
          path: string
          /** Null: the connection ended before a reply. A refused request has nacre's own, like 403. */
          status: number | null
          /** Bytes of the bodies, as the program sends and gets them. */
          sent: number
          received: number
          /** Milliseconds, until the end of the reply's body. */
          ms: number
          /** The names of the secrets that it had. */
          secrets?: string[] | undefined
          denied?: DenialReason | undefined
          protocol: 'http/1.1' | 'h2'
        }
      | {
          /** A connection or request waits for an answer; see {@link Sandbox.questions}. `id` is that of the question. */
          type: 'asked'
          id: string
          target: string
          request?: RequestLine | undefined
          expiresAt: Date
        }
      | {
          /** The question is closed. */
          type: 'answered'
          id: string
          target: string
          request?: RequestLine | undefined
          /** Null: its time is over, or its session has ended. */
          answer: Answer | null
        }
    ))
)

/** Times are sent as ISO 8601, output as `{ base64 }`. */
export const sandboxEvent: Pick<Reply<SandboxEvent>, 'encode' | 'decode'> = {
  encode(event, toBase64) {
    if (event.type !== 'commandOutput') return event
    const [stdout, stderr] = [event.stdout, event.stderr].map((data) => encodeOutput(data, toBase64))
    return { ...event, stdout, stderr }
  },
  decode(json) {
    const sent = json as SandboxEvent
    const event = { ...sent, time: new Date(sent.time) }
    if (event.type === 'asked') return { ...event, expiresAt: new Date(event.expiresAt) }
    if (event.type !== 'commandOutput') return event
    const bytesOf = (data: Uint8Array) => decodeOutput(data as never, 'buffer') as Uint8Array
    return { ...event, stdout: bytesOf(event.stdout), stderr: bytesOf(event.stderr) }
  },
}
