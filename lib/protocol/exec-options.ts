/** The options of commands in the foreground. */

import { option } from '../options/option.js'
import {
  abortSignal,
  bytes,
  callback,
  directory,
  encoding,
  env,
  flag,
  id,
  input,
  killSignal,
  milliseconds,
  ownFlag,
} from './kinds.js'
import { mergeOutput, outputCallbacks, verbose } from './output-options.js'

/** Of `session.exec` and `session.execStream`. */
export const sessionExecOptions = {
  cwd: option(directory, {
    doc: "Directory for this command only, resolved against the session's.",
    otherwise: "the session's",
  }),
  env: option(env, { doc: 'Environment changes for this command only.', otherwise: 'none' }),
  timeout: option(milliseconds, {
    doc: 'Time limit of the command; 0 = none. Its process tree is killed then.',
    otherwise: "the sandbox's",
  }),
  signal: option(abortSignal, {
    doc: 'Cancels the command: one that waits never runs, a running one is killed.',
    otherwise: 'none',
  }),
  killSignal: option(killSignal, {
    doc: 'The first signal of a timeout or an abort.',
    otherwise: "the sandbox's",
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between that signal and SIGKILL.',
    otherwise: "the sandbox's",
  }),
  input: option(input, { doc: 'Standard input.', otherwise: 'end of file' }),
  encoding: option(encoding, {
    doc: 'Whether stdout, stderr and all are strings or bytes.',
    default: 'utf8',
  }),
  mergeOutput,
  lines: option(ownFlag, {
    doc: 'stdout, stderr and all are arrays of lines. Text only.',
    default: false,
  }),
  stripFinalNewline: option(flag, {
    doc: 'Removes one final newline from stdout, stderr and all. With `lines`, false keeps the end of each line.',
    default: false,
  }),
  maxBuffer: option(bytes, {
    doc: 'Output kept of each stream: its head and its tail.',
    otherwise: "the sandbox's",
  }),
  check: option(flag, { doc: 'An unsuccessful command rejects with COMMAND_FAILED.', default: false }),
  verbose,
  ...outputCallbacks,
  onStart: option(callback, { doc: 'Called when the command begins to run.', otherwise: 'none' }),
  onComplete: option(callback, { doc: 'Called with the result before exec resolves.', otherwise: 'none' }),
  onError: option(callback, { doc: 'Called with the error before exec rejects.', otherwise: 'none' }),
}

/** Of `sandbox.exec` and `sandbox.execStream`. */
export const execOptions = {
  sessionId: option(id, { doc: 'The session to run in.', default: 'default' }),
  ...sessionExecOptions,
}
