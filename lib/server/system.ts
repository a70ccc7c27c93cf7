/**
 * Requests about the server itself.
 */
import { z } from '@hono/zod-openapi'
import type { ServerContext } from './context.js'
import type { Define } from './route.js'

const capabilitiesSchema = z.object({
  cgroup: z.enum(['v2', 'none']),
  cgroupKill: z.boolean(),
  controllers: z.array(z.string()),
  pidfd: z.boolean(),
  procFd: z.boolean(),
  shell: z.string().nullable(),
  shellVersion: z.string().nullable(),
  engine: z.enum(['builtin', 'plain']),
  restored: z.array(z.string()),
  isolation: z.object({
    filesystem: z.enum(['namespace', 'landlock', 'none']),
    network: z.enum(['namespace', 'landlock+seccomp', 'seccomp', 'none']),
    processes: z.enum(['namespace', 'landlock', 'none']),
    notes: z.array(z.string()),
  }),
  notes: z.array(z.string()),
})

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
    reply: z.object({ status: z.literal('ok') }),
    async handle() {
      return { status: 'ok' }
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
    reply: capabilitiesSchema,
    async handle() {
      return backend.capabilities()
    },
  })
}
