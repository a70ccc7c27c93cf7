/**
 * The end of a response. The response of a stream or a long call continues after its handler has returned.
 */
import type { Context } from 'hono'

const unfinished = new WeakMap<Request, Array<() => void>>()

/** Marks a response that continues after its handler. Returns a function that marks its end. */
export function sendLater(c: Context): () => void {
  const key = c.req.raw
  unfinished.set(key, [])
  return () => {
    const callbacks = unfinished.get(key) ?? []
    unfinished.delete(key)
    for (const callback of callbacks) callback()
  }
}

/** Calls back when the response is complete; immediately when it already is. */
export function whenSent(c: Context, callback: () => void): void {
  const callbacks = unfinished.get(c.req.raw)
  if (callbacks === undefined) callback()
  else callbacks.push(callback)
}
