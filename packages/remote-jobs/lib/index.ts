/** What `@nacre/remote-jobs` exports. The public types are in `public.ts`. */

export { createSandboxJobs } from './jobs.js'
