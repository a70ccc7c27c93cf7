/** Compiled, never run: the table of a reply has exactly the members of its interface, each of its type. */
import { number, optional, orNull, reply, text, wordOf } from '../../lib/schema/reply.js'

interface Result {
  state: 'running' | 'exited'
  code: number | null
  note?: string
}

const right = { state: wordOf('running', 'exited'), code: orNull(number), note: optional(text) }

export const result = reply<Result>(right)

// @ts-expect-error: `note` is missing
reply<Result>({ state: right.state, code: right.code })

// @ts-expect-error: `retries` is unknown
reply<Result>({ ...right, retries: number })

// @ts-expect-error: `code` can be null
reply<Result>({ ...right, code: number })

// @ts-expect-error: `note` can be absent
reply<Result>({ ...right, note: text })

// @ts-expect-error: `state` can also be 'exited'
reply<Result>({ ...right, state: wordOf('running') })
