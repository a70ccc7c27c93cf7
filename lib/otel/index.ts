/** The exports of `nacre/otel`. The public types are in `lib/public`. */

export { instrument } from './instrument.js'
