/** What `@nacre/queue` exports. The public types are in public.ts. */

export { JobQueue } from './queue.js'
export { JobWorker } from './worker.js'
