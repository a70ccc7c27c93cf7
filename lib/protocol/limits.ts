/** The kind of value that `limits` is, for processes and jobs. */
import { resourceLimits } from '../options/limits.js'
import { limitOptions } from './limit-options.js'
import type { Kind } from './option.js'

export const limits: Kind<ReturnType<typeof resourceLimits>> = {
  read: resourceLimits,
  json: { schema: { type: 'object', table: limitOptions } },
  bounds: 'an object of limits',
}
