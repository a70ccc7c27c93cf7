/** What `@nacre/fleet` shares with the client. Separate from lib/internal.ts because the verbs of queues need no client. */

export { HttpBackend } from './backend.js'
export { clientOf } from './client.js'
export type { Route, Target } from './route.js'
export type { Socket } from './socket.js'
