/** The options that commands and processes have in common: the order of their output, and the callbacks for it. */
import { option } from '../options/option.js'
import { callback, flag, ownFlag } from './kinds.js'

export const mergeOutput = option(flag, {
  doc: 'Gives the command one pipe for both streams: stdout has everything in the exact order, stderr nothing.',
  default: false,
})

export const verbose = option(ownFlag, {
  doc: 'Prints the command, its duration and its end on standard error of this program.',
  otherwise: '`NACRE_DEBUG=1` in the environment',
})

export const outputCallbacks = {
  onOutput: option(callback, {
    doc: 'Called with the stream and each piece of its output, as text.',
    otherwise: 'none',
  }),
  onStdout: option(callback, { doc: 'Called with each piece of stdout, as text.', otherwise: 'none' }),
  onStderr: option(callback, { doc: 'Called with each piece of stderr, as text.', otherwise: 'none' }),
  onLine: option(callback, {
    doc: 'Called with each line of output, without its end, and with the name of its stream.',
    otherwise: 'none',
  }),
}
