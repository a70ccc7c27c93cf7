/** Stands for `host-copy.ts` in browsers: package.json maps `#host-copy` to one of them. */
import { invalidOption } from '../base/errors.js'
import type { copyIn as CopyIn } from './host-copy.js'

export const copyIn: typeof CopyIn = async () => {
  throw invalidOption('copyIn and copyOut need the files of Node.js or Bun')
}

export const copyOut = copyIn as unknown as typeof import('./host-copy.js').copyOut
