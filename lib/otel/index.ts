/** What `nacre/otel` exports. The public types are in `otel.d.ts` at the top, written by hand. */

export { instrument } from './instrument.js'
