/** The options that commands and processes have in common: the order of their output, and the callbacks for it. */

import { option } from '../schema/kind.js'
import { callback, flag, ownFlag } from '../schema/values.js'

export const mergeOutput = option(flag, {
  doc: 'Gives the command one pipe for both streams. stdout then has all output in the exact order, and stderr is empty.',
  default: false,
})

export const verbose = option(ownFlag, {
  doc: 'Prints the command, how it ended and its duration to standard error of this program.',
  otherwise: '`NACRE_DEBUG=1` in the environment',
})

export const outputCallbacks = {
  onOutput: option(callback, {
    doc: 'Called with each piece of output: the name of its stream, and the text.',
    otherwise: 'none',
  }),
  onStdout: option(callback, { doc: 'Called with each piece of stdout, as text.', otherwise: 'none' }),
  onStderr: option(callback, { doc: 'Called with each piece of stderr, as text.', otherwise: 'none' }),
  onLine: option(callback, {
    doc: 'Called with each line of output, without the line ending, and the name of its stream.',
    otherwise: 'none',
  }),
}
