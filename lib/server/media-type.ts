/**
 * The media type of a request's body, which must be declared as JSON.
 *
 * This is also what keeps a form of a web page from being a request: a page can send text and forms anywhere, JSON only
 * after the server has allowed it.
 */
import type { Context, Next } from 'hono'
import { withoutPrototypes } from '../base/own.js'
import { Refusal } from './failure.js'

const JSON_TYPE = 'application/json'

/** Also `application/problem+json` and the like; parameters such as a charset do not matter. */
const IS_JSON = /^application\/([\w.-]+\+)?json\s*(;|$)/i

/** Refuses a body of another type with 415, before it is parsed. The parsed body has no prototypes. */
export async function requireJson(c: Context, next: Next): Promise<void> {
  const type = c.req.header('content-type') ?? ''
  if (!IS_JSON.test(type.trim())) {
    const given = type === '' ? 'the request has no type' : `not ${type.slice(0, 80)}`
    throw new Refusal(
      'UNSUPPORTED_MEDIA_TYPE',
      `the body must be JSON, with the header \`Content-Type: ${JSON_TYPE}\`; ${given}`,
      {},
      { 'accept-post': JSON_TYPE },
    )
  }
  // Inherited properties would count as properties of the body.
  const { req } = c
  Object.setPrototypeOf(req.bodyCache, null)
  req.json = async () => withoutPrototypes(JSON.parse(await req.text()))
  await next()
}
