/** What `@nacre/compat` exports. The public types are in public.ts. */

export { serveE2b } from './serve.js'
