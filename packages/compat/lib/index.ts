/** What `@nacre/compat` exports. The public types are in public.ts. */

export { serveDaytona } from './daytona/serve.js'
export { serveE2b } from './e2b/serve.js'
