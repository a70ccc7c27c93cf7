/**
 * The end of a response: its last byte is sent, or its client has disconnected. The response of a stream or a long call
 * continues after its handler has returned, and a client can disconnect before that.
 */

import type { Context, Next } from 'hono'
import { aborts } from 'nacre/internal'

interface Sending {
  callbacks: Array<() => void>
  /** Whether the response exists. */
  isHandled: boolean
  /** Whether the response continues after its handler. */
  isOpen: boolean
  isOver: boolean
}

const sendings = new WeakMap<Request, Sending>()

/** The first middleware: tracks the response of each request. */
export async function trackSending(c: Context, next: Next): Promise<void> {
  const sending: Sending = { callbacks: [], isHandled: false, isOpen: false, isOver: false }
  sendings.set(c.req.raw, sending)
  const gone = c.req.raw.signal
  sending.callbacks.push(aborts.onAbort(gone, () => finish(sending)))
  if (gone.aborted) finish(sending)
  try {
    await next()
  } finally {
    sending.isHandled = true
    if (!sending.isOpen) finish(sending)
  }
}

/** Calls back once, at the end of the response. */
export function whenSent(c: Context, callback: () => void): void {
  const sending = sendings.get(c.req.raw)
  if (sending === undefined || sending.isOver) callback()
  else sending.callbacks.push(callback)
}

/** Marks a response that may continue after its handler. Returns a function that marks its end. */
export function sendLater(c: Context): () => void {
  const sending = sendings.get(c.req.raw)
  if (sending === undefined) return () => {}
  sending.isOpen = true
  return () => {
    sending.isOpen = false
    if (sending.isHandled) finish(sending)
  }
}

function finish(sending: Sending): void {
  if (sending.isOver) return
  sending.isOver = true
  for (const callback of sending.callbacks) callback()
}
