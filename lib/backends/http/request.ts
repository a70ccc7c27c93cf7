/** A request to the server. */
import type { Asked } from './failure.js'

export interface Request extends Asked {
  method?: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string | number | boolean | undefined>
  body?: object
  /** The reply waits for an event and may take hours, so requestTimeout does not apply. */
  waits?: boolean
  /** A POST that may be repeated. GET and DELETE always may. */
  isIdempotent?: boolean
}
