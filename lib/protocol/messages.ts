/** The messages of a process, as they cross HTTP. */
import { boolean, list, number, reply } from '../schema/reply.js'

export interface ReceivedMessage {
  value: unknown
  /** Where reading goes on behind it. */
  cursor: number
}

export interface ReceivedMessages {
  messages: ReceivedMessage[]
  /** Nothing follows. */
  isOver: boolean
}

export const receivedMessages = reply<ReceivedMessages>({
  messages: list(reply<ReceivedMessage>({ value: { schema: { isAny: true } }, cursor: number })),
  isOver: boolean,
})
