/**
 * Requests about the server itself.
 */
import { endpoints, protocol } from 'nacre/internal/server'
import type { ServerContext } from './context.js'
import type { Define } from './route.js'
import { addSimpleCalls } from './v1/simple-calls.js'

export function addSystem(
  define: Define,
  { backend, metrics, callers, requests, instance }: ServerContext,
): void {
  addSimpleCalls(define, protocol.machineCalls, () => backend)
  define({
    ...endpoints.healthCheck,
    summary: 'Checks that the server is alive. Needs no token.',
    isOpen: true,
    handle: async () => 'ok' as const,
  })
  define({
    method: 'GET',
    path: '/metrics',
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
}
