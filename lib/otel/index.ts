/** What `nacre/otel` exports. The public types are in `lib/public`. */

export { instrument } from './instrument.js'
