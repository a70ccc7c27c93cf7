/**
 * Callers, whose calls survive their connections.
 */
import { MOST_KEEP_MS } from '../../protocol/keep.js'
import * as replies from '../../protocol/replies.js'
import { pattern } from '../../schema/constructors.js'
import { count } from '../../schema/numbers.js'
import type { ServerContext } from '../context.js'
import { anyText, queryNumber } from '../query.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

/** The id of a sandbox of a fleet. */
const sandbox = pattern(/^[\s\S]{1,253}$/, 'must be 1 to 253 characters long')

const tag = 'server'
const errors = ['CALLER_NOT_FOUND']
const callerId = anyText

export function addCallers(define: Define, { callers }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/callers',
    summary: 'Registers a caller. Its calls survive broken connections for `keep` milliseconds.',
    ...{ tag },
    body: shape({ keep: count(1, MOST_KEEP_MS), sandbox }, ['keep']),
    reply: replies.caller,
    async handle({ body: { keep, sandbox } }) {
      return { callerId: callers.register(keep, sandbox) }
    },
  })
  define({
    method: 'delete',
    path: '/v1/callers/{callerId}',
    summary: 'Cancels all calls of a caller.',
    ...{ tag, errors },
    params: shape({ callerId }, ['callerId']),
    reply: replies.empty,
    async handle({ params }) {
      callers.unregister(params.callerId)
      return {}
    },
  })
  define({
    method: 'delete',
    path: '/v1/callers/{callerId}/calls/{number}',
    summary: 'Cancels a call. If its request arrives later, nothing runs.',
    ...{ tag, errors },
    params: shape({ callerId, number: queryNumber }, ['callerId', 'number']),
    reply: replies.empty,
    async handle({ params }) {
      callers.cancel(params.callerId, params.number)
      return {}
    },
  })
}
