/**
 * Callers, whose calls survive their connections.
 */

import { kinds } from 'nacre/internal'
import { endpoints, protocol } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import { shape } from '../request-json.js'
import type { Define } from '../route.js'

/** The id of a sandbox of a fleet. */
const sandbox = kinds.pattern(/^[\s\S]{1,253}$/, 'must be 1 to 253 characters long')

const errors = ['CALLER_NOT_FOUND']

export function addCallers(define: Define, { callers }: ServerContext): void {
  define({
    ...endpoints.registerCaller,
    summary: 'Registers a caller. Its calls survive broken connections for `keep` milliseconds.',
    body: shape({ keep: kinds.count(1, protocol.MOST_KEEP_MS), sandbox }, ['keep']),
    handle: async ({ body: { keep, sandbox } }) => callers.register(keep, sandbox),
  })
  define({
    ...endpoints.removeCaller,
    summary: 'Cancels all calls of a caller.',
    errors,
    handle: async ({ params }) => callers.unregister(params.callerId),
  })
  define({
    ...endpoints.cancelCall,
    summary: 'Cancels a call. If its request arrives later, nothing runs.',
    errors,
    handle: async ({ params }) => callers.cancel(params.callerId, params.number),
  })
}
