/** The exports of `nacre/otel`. The public types are in `lib/calls`. */

export { instrument } from './instrument.js'
