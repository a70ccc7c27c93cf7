/** What `@nacre/queue` exports. The public types are in `lib/public`. */

export { JobQueue } from './queue.js'
export { JobWorker } from './worker.js'
