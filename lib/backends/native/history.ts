/**
 * The command history of a sandbox's sessions, in memory: the last commands of each session, for a bounded number of
 * sessions. Commands that never started are left out.
 */

import { signalName } from '../../base/signals.js'
import type { NativeResult } from '../../boundary/index.js'
import type { HistoryEntry } from '../../calls/index.js'

/** Commands kept for each session. */
const MOST_COMMANDS = 100
/** Maximum sessions with a history. Beyond that, the session that has been idle longest loses its history. */
const MOST_SESSIONS = 1000
/** Characters kept of each command. */
const LONGEST_COMMAND = 1000

/** An entry whose times are not text yet: that takes longer than all the rest, and few entries are read. */
type Kept = Omit<HistoryEntry, 'timestamp'> & { startedAt: number }

export class History {
  readonly #sessions = new Map<string, Kept[]>()

  /** One with the same commands, for a fork. */
  copy(): History {
    const copy = new History()
    for (const [id, entries] of this.#sessions) copy.#sessions.set(id, [...entries])
    return copy
  }

  /** Records a command that has run. */
  add(sessionId: string, command: string, native: NativeResult): void {
    if (native.startedAt === 0) return
    const entries = this.#sessions.get(sessionId) ?? []
    // Moves the session to the end of the map, which keeps the most recently used last.
    this.#sessions.delete(sessionId)
    this.#sessions.set(sessionId, entries)
    entries.push(keptOf(command, native))
    if (entries.length > MOST_COMMANDS) entries.shift()
    if (this.#sessions.size > MOST_SESSIONS) this.#forgetOldest()
  }

  /** The last commands of a session, oldest first. */
  of(sessionId: string, limit: number): HistoryEntry[] {
    const entries = this.#sessions.get(sessionId) ?? []
    return entries.slice(Math.max(0, entries.length - limit)).map(entryOf)
  }

  /** Drops the history of a deleted session. */
  forget(sessionId: string): void {
    this.#sessions.delete(sessionId)
  }

  #forgetOldest(): void {
    const [oldest] = this.#sessions.keys()
    if (oldest !== undefined) this.#sessions.delete(oldest)
  }
}

function entryOf({ command, startedAt, ...others }: Kept): HistoryEntry {
  return { command, timestamp: new Date(startedAt).toISOString(), ...others }
}

function keptOf(command: string, native: NativeResult): Kept {
  const { droppedStdout = 0, droppedStderr = 0 } = native
  return {
    // A copy: the beginning of a string keeps the whole string in memory.
    command:
      command.length > LONGEST_COMMAND
        ? Buffer.from(`${command.slice(0, LONGEST_COMMAND)}...`, 'utf16le').toString('utf16le')
        : command,
    startedAt: native.startedAt,
    duration: native.duration,
    exitCode: native.exitCode ?? null,
    signal: native.signal === undefined ? null : signalName(native.signal),
    stdoutBytes: Buffer.byteLength(native.stdout) + droppedStdout,
    stderrBytes: Buffer.byteLength(native.stderr) + droppedStderr,
  }
}
