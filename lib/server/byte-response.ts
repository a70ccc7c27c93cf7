/**
 * Bytes as the body of a response. The next piece is asked for when the client has taken the one before.
 */
import { onAbort } from '../base/abort.js'

/** A handler that gives this has its response sent as bytes. */
export interface ByteReply {
  status: number
  headers: Record<string, string>
  /** The first piece, and what follows; none for an empty body. */
  first?: Uint8Array | undefined
  rest?: ReadableStreamDefaultReader<Uint8Array> | undefined
  /** The length that the headers announce. */
  length?: number | undefined
}

/** The response. `gone` is aborted when the client goes away. `onEnd` is called once, when nothing more is sent. */
export function byteResponse(
  { status, headers, first, rest, length = Number.POSITIVE_INFINITY }: ByteReply,
  gone: AbortSignal,
  onEnd: () => void,
): Response {
  if (rest === undefined) {
    onEnd()
    return new Response(null, { status, headers })
  }
  let left = length
  let waiting = first
  let isOpen = true
  const end = () => {
    isOpen = false
    ignore()
    onEnd()
  }
  const leave = async () => {
    if (!isOpen) return
    end()
    await rest.cancel()
  }
  const ignore = onAbort(gone, () => void leave().catch(() => {}))
  if (gone.aborted) void leave().catch(() => {})
  const body = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const piece = waiting ?? (await rest.read()).value
        waiting = undefined
        if (!isOpen) return
        if (piece !== undefined) {
          // A file that grows meanwhile is sent as it was announced.
          const sent = piece.length > left ? piece.subarray(0, left) : piece
          left -= sent.length
          controller.enqueue(sent)
        }
        if (piece !== undefined && left > 0) return
        end()
        await rest.cancel()
        if (left > 0 && length !== Number.POSITIVE_INFINITY)
          controller.error(new Error('the file has become shorter while it was sent'))
        else controller.close()
      },
      cancel: leave,
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}
