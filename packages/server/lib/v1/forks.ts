/** The forks that are served. What is below their paths, the server of each has: see lib/forks/. */
import { replies } from 'nacre/internal/server'
import type { ServerContext } from '../context.js'
import type { Define } from '../route.js'

const fork = replies.reply({ name: replies.text }, 'Fork')

export function addForks(define: Define, { forks }: ServerContext): void {
  define({
    method: 'GET',
    path: '/v1/forks',
    summary: 'Lists the open forks of the sandbox. Each has all routes of this server below `/forks/{name}`.',
    reply: replies.only('forks', replies.list(fork)),
    handle: async () => (forks?.names() ?? []).map((name) => ({ name })),
  })
}
