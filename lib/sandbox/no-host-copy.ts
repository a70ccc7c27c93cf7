/** Stands for `host-copy.ts` in browsers: package.json maps `#host-copy` to one of them. */
import { OptionError } from '../base/errors.js'
import type { copyIn as CopyIn } from './host-copy.js'

export const copyIn: typeof CopyIn = async () => {
  throw new OptionError('INVALID_OPTION', 'copyIn and copyOut need the files of Node.js or Bun')
}

export const copyOut = copyIn as unknown as typeof import('./host-copy.js').copyOut
