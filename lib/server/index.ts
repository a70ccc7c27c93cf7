/** What `nacre/server` exports. The public types are in `server.d.ts` at the top, written by hand. */
export { serve } from './serve.js'
export { createServer } from './server.js'
