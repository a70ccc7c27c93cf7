/** Holds, by which one caller alone uses a session or writes to a process. */

import { text as textKind } from '../schema/constructors.js'
import { date, reply, text, wordOf } from '../schema/reply.js'

/** A line of at most so many characters. */
const line = (most: number) =>
  textKind(
    (text) => text.length >= 1 && text.length <= most && !/\p{Cc}/u.test(text),
    `must be 1 to ${most} characters without control characters`,
  )

/** The owner of a hold, as others see it. */
export const holdOwner = line(100)

export const holdNote = line(200)

/** What the owner of a hold said when it released it. */
export interface HandBack {
  owner: string
  note: string
  time: Date
}

export const handBack = reply<HandBack>({ owner: text, note: text, time: date })

/**
 * A session or a process that one caller alone uses, until the hold ends. {@link Session.hold} and {@link Process.hold}
 * make it. What others try meanwhile rejects with HELD; it does not wait.
 *
 * A hold ends when it is released, when its session or process ends, and with the sandbox. A client's hold
 * also ends when the client ends or loses its connection; with `resume`, `reconnectTimeout` plus 10 s later.
 */
export interface Hold<Held extends object = object> {
  /** Who holds it. */
  readonly owner: string
  /** The same session or process for the owner, whose calls pass. When the hold has ended, they reject with HELD, too. */
  readonly held: Held
  /** Resolves when the hold has ended, for whatever reason. Does not keep the event loop alive, except over HTTP. */
  readonly ended: Promise<void>
  /**
   * Ends the hold. Resolves when others can use what was held. Has no effect if the hold has already ended.
   *
   * `note` says what was done, in 1 to 200 characters without control characters: {@link Process.handedBack} shows it. For a
   * session, it is not shown.
   */
  release(note?: string): Promise<void>
  /** The same as `release`. */
  [Symbol.asyncDispose](): Promise<void>
}

/** An event of a hold over HTTP. The first one is `held`; `complete` follows when the hold has ended. */
export const holdEvent = reply<{ type: 'held' | 'complete'; hold: string }>({
  type: wordOf('held', 'complete'),
  hold: { ...text, description: 'The id of the hold, for the header X-Nacre-Hold.' },
})
