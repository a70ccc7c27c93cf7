/** What `@nacre/server` exports. The public types are in public.ts. */

export { serve } from './serve.js'
export { createServer } from './server.js'
