/**
 * The media type of a request's body, which must be declared as JSON.
 *
 * This is also what keeps a form of a web page from being a request: a page can send text and forms anywhere, JSON only
 * after the server has allowed it.
 */

import type { Context } from 'hono'
import { OptionError } from 'nacre/internal'
import { Refusal } from './failure.js'

const JSON_TYPE = 'application/json'

/** Also `application/problem+json` and the like; parameters such as a charset do not matter. */
const IS_JSON = /^application\/([\w.-]+\+)?json\s*(;|$)/i

/** The body. One of another type is refused with 415, before it is parsed. */
export async function jsonBody({ req }: Context): Promise<unknown> {
  const type = req.header('content-type') ?? ''
  if (!IS_JSON.test(type.trim())) {
    const given = type === '' ? 'the request has no type' : `not ${type.slice(0, 80)}`
    throw new Refusal(
      'UNSUPPORTED_MEDIA_TYPE',
      `the body must be JSON, with the header \`Content-Type: ${JSON_TYPE}\`; ${given}`,
      {},
      { 'accept-post': JSON_TYPE },
    )
  }
  // Inherited properties would count as the body.
  Object.setPrototypeOf(req.bodyCache, null)
  try {
    return JSON.parse(await req.text())
  } catch (cause) {
    throw new OptionError('INVALID_OPTION', 'the body must be JSON', { cause })
  }
}
