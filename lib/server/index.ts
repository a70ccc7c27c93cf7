/** The exports of `nacre/server`. The public types are in `lib/public`. */
export { serve } from './serve.js'
export { createServer } from './server.js'
