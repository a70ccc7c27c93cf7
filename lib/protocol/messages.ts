/** The messages of a process, as they cross HTTP. */
import { boolean, list, number, optional, reply, text } from '../schema/reply.js'

export interface ReceivedMessage {
  value?: unknown
  /** Instead of a value: why it has none. */
  error?: { code: string; message: string }
  /** Where reading goes on behind it. */
  cursor: number
}

export interface ReceivedMessages {
  messages: ReceivedMessage[]
  /** Nothing follows. */
  isOver: boolean
}

export const receivedMessages = reply<ReceivedMessages>({
  messages: list(
    reply<ReceivedMessage>({
      value: { schema: { isAny: true }, isOptional: true },
      error: optional(reply({ code: text, message: text })),
      cursor: number,
    }),
  ),
  isOver: boolean,
})
