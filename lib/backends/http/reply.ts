/** A response whose body is JSON: the reply, or the error that it has instead. */
import { INSTANCE_HEADER } from '../../protocol/headers.js'
import { objectOf } from '../../schema/reply.js'
import { errorOf, isEnvelope, proxyError } from './failure.js'
import { readList } from './long-list.js'
import type { Request } from './request.js'

/**
 * A long reply begins with blanks, and may hold an error in spite of its status. `stop` breaks it off; `explain` makes the error
 * of a broken one.
 */
export async function readReply(
  response: Response,
  request: Request,
  stop: AbortSignal,
  explain: (error: unknown) => unknown,
): Promise<unknown> {
  let reply: unknown
  try {
    const isList = request.list !== undefined && response.body !== null
    reply = isList ? await readList(response.body, stop) : parse(await response.text())
  } catch (error) {
    throw explain(error)
  }
  if (isEnvelope(reply)) throw errorOf(reply, request)
  if (!isFromServer(response)) throw proxyError(request.path, response.status, reply)
  if (reply === undefined) throw explain(new SyntaxError('the reply is not JSON, or was cut off'))
  return objectOf(reply)
}

/** Whether it is a success of a nacre server. Another server may answer with anything, also JSON. */
export function isFromServer({ ok, headers }: Response): boolean {
  return ok && headers.has(INSTANCE_HEADER)
}

export function isOfEvents({ headers }: Response): boolean {
  return headers.get('content-type')?.startsWith('text/event-stream') ?? false
}

/** Undefined when it is not JSON. */
function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
