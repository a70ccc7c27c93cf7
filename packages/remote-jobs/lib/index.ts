/** What `@nacre/remote-jobs` exports. The public types are in `public.ts`. */

export { createRemoteJobs } from './jobs.js'
