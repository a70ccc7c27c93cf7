/**
 * Bytes as the body of a response. The next piece is read when the client has taken the previous one.
 */
import { AbortError, aborts, clock } from 'nacre/internal'
import type { backends } from 'nacre/internal/server'

/** Milliseconds in which a client takes a piece when the server ends. */
const PATIENCE_MS = 1000

/** A handler returns this to send its response as bytes. */
export interface ByteReply {
  status: number
  headers: Record<string, string>
  /** The first piece; undefined for an empty body. Then `source` is not read. */
  first?: Uint8Array | undefined
  source?: backends.FileSource | undefined
  /** The length that the headers announce. */
  length?: number | undefined
}

/** The connection as a response of bytes uses it. */
export interface ByteConnection {
  /** Aborted when the client disconnects. */
  gone: AbortSignal
  /** Aborted when the server ends. A client that goes on reading then gets the rest. */
  closing: AbortSignal
  /** Called once, when nothing more is sent. */
  onEnd: () => void
  /**
   * Reports an error after the response has begun, and breaks the connection: the client must not take it for the end.
   * False when there is no connection to break.
   */
  fail: (error: unknown) => boolean
}

export function byteResponse(
  { status, headers, first, source, length = Number.POSITIVE_INFINITY }: ByteReply,
  { gone, closing, onEnd, fail }: ByteConnection,
): Response {
  if (source === undefined) {
    onEnd()
    return new Response(null, { status, headers })
  }
  let left = length
  let waiting = first
  let isOpen = true
  let ignoreClosing = () => {}
  let patience: NodeJS.Timeout | undefined
  const end = () => {
    isOpen = false
    ignore()
    ignoreClosing()
    clock.clearTimeout(patience)
    onEnd()
  }
  const leave = () => {
    if (!isOpen) return
    end()
    source.close()
  }
  const ignore = aborts.onAbort(gone, leave)
  if (gone.aborted) leave()
  const next = async (): Promise<Uint8Array | undefined> => {
    const piece = waiting ?? (first && (await source.read()))
    waiting = undefined
    if (piece === undefined && length !== Number.POSITIVE_INFINITY)
      throw new Error('the file has become shorter while it was sent')
    // A file that grows meanwhile is sent with the announced length.
    return piece !== undefined && piece.length > left ? piece.subarray(0, left) : piece
  }
  const breakOff = (controller: ReadableStreamDefaultController<Uint8Array>, error: unknown) => {
    if (!isOpen) return
    leave()
    if (!fail(error)) controller.error(error)
  }
  let watch = () => {}
  const body = new ReadableStream<Uint8Array>(
    {
      start(controller) {
        if (!isOpen) return
        const cut = () => breakOff(controller, new AbortError(closing.reason))
        // A client that reads nothing would hold up the end of the server.
        watch = () => {
          clock.clearTimeout(patience)
          patience = clock.setTimeout(cut, PATIENCE_MS)
        }
        ignoreClosing = aborts.onAbort(closing, watch)
        if (closing.aborted) watch()
      },
      async pull(controller) {
        try {
          if (closing.aborted) watch()
          const piece = await next()
          if (!isOpen) return
          if (piece !== undefined) {
            left -= piece.length
            controller.enqueue(piece)
            if (left > 0) return
          }
          controller.close()
          leave()
        } catch (error) {
          breakOff(controller, error)
        }
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}
