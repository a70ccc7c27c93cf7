/**
 * Requests about the server itself.
 */
import * as replies from '../protocol/replies.js'
import { reply, wordOf } from '../schema/reply.js'
import type { ServerContext } from './context.js'
import type { Define } from './route.js'

export function addSystem(
  define: Define,
  { backend, metrics, callers, requests, instance }: ServerContext,
): void {
  define({
    method: 'get',
    path: '/healthz',
    tag: 'server',
    summary: 'Checks that the server is alive. Needs no token.',
    isOpen: true,
    reply: reply({ status: wordOf('ok') }),
    async handle() {
      return { status: 'ok' as const }
    },
  })
  define({
    method: 'get',
    path: '/metrics',
    tag: 'server',
    summary: 'Returns metrics in the Prometheus format.',
    reply: 'text',
    async handle() {
      const text = await metrics.render({
        active: requests.active,
        instance,
        sandboxes: callers.sandboxes,
      })
      return new Response(text, { headers: { 'content-type': 'text/plain; version=0.0.4; charset=utf-8' } })
    },
  })
  define({
    method: 'get',
    path: '/v1/capabilities',
    tag: 'server',
    summary: 'Returns the capabilities of the machine.',
    reply: replies.capabilities,
    async handle() {
      return backend.capabilities()
    },
  })
}
