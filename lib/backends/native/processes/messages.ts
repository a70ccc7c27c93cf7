/**
 * The messages of a process: lines of JSON, which the engine reads and writes as they are.
 *
 * Node.js and Bun also exchange messages of their own with a parent, which no caller of theirs sees. One of Node.js announces a
 * socket or a server, which does not arrive here, and must be answered: until then the program sends nothing else.
 */
import { engineError, isCode } from '../../../base/errors.js'
import type { NativeProcessRef } from '../../../boundary/index.js'
import type { ReceivedMessage, ReceivedMessages } from '../../../protocol/messages.js'
import { isDeep, MOST_LEVELS } from '../../../schema/message.js'
import { quote } from '../../../schema/read.js'
import { abortable } from '../engine.js'
import type { ProcessHandle } from './handle.js'

export interface ReceivePlan {
  /** The messages up to here are taken. */
  cursor: number
  follow: boolean
  signal: AbortSignal | undefined
}

/** What a line of Bun's own begins with. */
const BUN = '\x02'
const NODE = 'NODE_'
const REFUSED = JSON.stringify({ cmd: 'NODE_HANDLE_NACK' })

/** Resolves with at least one message, unless nothing follows, or it does not `follow`. */
export async function receive(
  handle: ProcessHandle,
  { cursor, follow, signal }: ReceivePlan,
): Promise<ReceivedMessages> {
  const { engine, ref } = handle
  for (let taken = cursor; ; ) {
    const { lines, first, isOver, rest } = await abortable(engine, 'reading messages', signal, (native, id) =>
      native.receiveMessages(id, ref, taken, follow),
    )
    const { messages, end } = parse(handle, lines, first)
    if (rest !== undefined)
      return { messages: [{ error: noMessage(ref, rest), cursor: end + 1 }], isOver: false }
    if (messages.length > 0 || isOver || !follow) return { messages, isOver }
    taken = end
  }
}

/** The error for a message that has no end. */
function noMessage({ processId }: NativeProcessRef, rest: 'tooLong' | 'cut'): ReceivedMessage['error'] {
  return rest === 'cut'
    ? {
        code: 'INVALID_MESSAGE',
        message: `the channel of messages with process '${processId}' has ended in the middle of a message`,
      }
    : {
        code: 'MESSAGE_TOO_LARGE',
        message: `a message of process '${processId}' has more than 16 MiB (16777216 bytes), so the channel was closed: send less at once`,
      }
}

/** The messages, and the number of lines up to their end. A line that is none has an error. */
function parse(
  handle: ProcessHandle,
  lines: string,
  first: number,
): { messages: ReceivedMessage[]; end: number } {
  const messages: ReceivedMessage[] = []
  let cursor = first
  for (let at = 0; at < lines.length; cursor++) {
    const end = lines.indexOf('\n', at)
    const line = lines.slice(at, end)
    at = end + 1
    if (line.startsWith(BUN)) continue
    const value = parsedLine(line)
    if (value instanceof Invalid) {
      const message = `process '${handle.id}' has sent a line that ${value.why}: ${quote(line)}`
      messages.push({ error: { code: 'INVALID_MESSAGE', message }, cursor: cursor + 1 })
      continue
    }
    const own = ownCommand(value)
    if (own === undefined) messages.push({ value, cursor: cursor + 1 })
    else if (own === 'NODE_HANDLE') refuseHandle(handle, cursor)
  }
  return { messages, end: cursor }
}

/** Why a line is no message. */
class Invalid {
  constructor(readonly why: string) {}
}

function parsedLine(line: string): unknown {
  try {
    const value: unknown = JSON.parse(line)
    return isDeep(value, line) ? new Invalid(`has more than ${MOST_LEVELS} levels`) : value
  } catch {
    return new Invalid('is no JSON')
  }
}

/**
 * Refuses a socket or a server, once: a line that nothing has taken is read again. A program waits for the answer before it
 * sends the next one, so at most one is on its way, however many a hostile one sends.
 */
function refuseHandle(handle: ProcessHandle, cursor: number): void {
  const { refusals } = handle
  if (cursor < refusals.upTo) return
  refusals.upTo = cursor + 1
  if (refusals.isPending) return
  refusals.isPending = true
  sendLine(handle, REFUSED)
    .catch(() => {})
    .finally(() => {
      refusals.isPending = false
    })
}

/** The command of a message that Node.js keeps to itself. */
function ownCommand(value: unknown): string | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { cmd } = value as { cmd?: unknown }
  return typeof cmd === 'string' && cmd.length > NODE.length && cmd.startsWith(NODE) ? cmd : undefined
}

/** Resolves when the kernel has taken the message. */
export async function sendLine({ engine, ref }: ProcessHandle, line: string): Promise<void> {
  try {
    await engine.call<true>((native, id) => native.sendMessage(id, ref, Buffer.from(`${line}\n`)))
  } catch (error) {
    if (!isCode(error, 'PROCESS_NOT_FOUND')) throw error
    throw engineError('CHANNEL_CLOSED', `process '${ref.processId}' has ended`)
  }
}
