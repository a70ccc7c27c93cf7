/** What the verbs of companion packages share with those of nacre. See lib/internal.ts. */

export { Command, InvalidArgumentError } from 'commander'
export { OptionError } from '../base/errors.js'
export { checkSandbox } from './check-sandbox.js'
export { followUntilSignal } from './detach.js'
export { withExamples } from './examples.js'
export { runInTerminal, type Size, terminalSize } from './exec-terminal.js'
export { exitCodeOf, exitCodeOfEnd, report } from './failure.js'
export { onSignals } from './signals.js'
export { nearSuggestions } from './suggestion.js'
export { printTable, short } from './table.js'
export { colorsOf, NOBODY_READS, printJson, printLine, stderrLogger, write } from './terminal.js'
export {
  byteOffset,
  byteSize,
  commandOf,
  contentOf,
  duration,
  existingDirectory,
  inputOf,
  isolationOption,
  ownDirectory,
  secretsIn,
  takeVariable,
  variable,
  wholeNumber,
} from './values.js'
export type { Finish } from './verb.js'
