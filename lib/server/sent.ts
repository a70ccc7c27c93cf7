/**
 * When the response of a request is complete. That of a stream or a long call goes on after its handler has returned.
 */
import type { Context } from 'hono'

const unfinished = new WeakMap<Request, Array<() => void>>()

/** Marks a response that goes on after its handler; the function it gives marks its end. */
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
