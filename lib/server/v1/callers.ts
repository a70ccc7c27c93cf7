/**
 * Callers, whose calls survive their connections.
 */
import { z } from '@hono/zod-openapi'
import { MOST_KEEP_MS } from '../../protocol/keep.js'
import * as replies from '../../protocol/replies.js'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'
import { queryNumber, strictObject } from '../schemas.js'

/** Of a sandbox's id. */
const MOST_CHARACTERS = 253

const tag = 'server'
const errors = ['CALLER_NOT_FOUND']
const callerId = z.string()

export function addCallers(define: Define, { callers }: ServerContext): void {
  define({
    method: 'post',
    path: '/v1/callers',
    summary: 'Registers a caller. Its calls survive broken connections for `keep` milliseconds.',
    ...{ tag },
    body: strictObject({
      keep: z.number().int().min(1).max(MOST_KEEP_MS),
      sandbox: z.string().min(1).max(MOST_CHARACTERS).optional(),
    }),
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
    params: z.object({ callerId }),
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
    params: z.object({ callerId, number: queryNumber }),
    reply: replies.empty,
    async handle({ params }) {
      callers.cancel(params.callerId, params.number)
      return {}
    },
  })
}
