/** A request to the server, as its callers describe it. */
import type { Asked } from './failure.js'

export interface Request extends Asked {
  method?: 'GET' | 'POST' | 'DELETE'
  path: string
  query?: Record<string, string | number | boolean | undefined>
  body?: object
  /** The server answers when something has happened, which may take hours: no time limit holds. */
  waits?: boolean
  /** It is a POST whose second arrival changes nothing. GET and DELETE are such by themselves. */
  isIdempotent?: boolean
}
