/** The exports of `nacre/server`. The public types are in `lib/calls`. */
export { serve } from './serve.js'
export { createServer } from './server.js'
