/** The options of commands in the foreground. */

import { input } from '../schema/command.js'
import { env } from '../schema/env.js'
import { option } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, milliseconds } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, encoding, flag, ownFlag } from '../schema/values.js'
import { mergeOutput, outputCallbacks, verbose } from './output-options.js'

/** Of `session.exec` and `session.execStream`. */
export const sessionExecOptions = {
  cwd: option(directory, {
    doc: "Directory for this command only, relative to the session's.",
    otherwise: "the session's",
  }),
  env: option(env, { doc: 'Changes to the environment for this command only.', otherwise: 'none' }),
  timeout: option(milliseconds, {
    doc: 'Time limit of the command; 0 = none. On timeout, everything that it started is killed.',
    otherwise: "the sandbox's",
  }),
  signal: option(abortSignal, {
    doc: 'Aborting cancels the command: a queued command never runs, a running command is killed.',
    otherwise: 'none',
  }),
  killSignal: option(killSignal, {
    doc: 'The first signal sent on a timeout or an abort.',
    otherwise: "the sandbox's",
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between `killSignal` and SIGKILL.',
    otherwise: "the sandbox's",
  }),
  input: option(input, { doc: 'Standard input.', otherwise: 'end of file' }),
  encoding: option(encoding, {
    doc: 'Returns stdout, stderr and all as strings (utf8) or as bytes (buffer).',
    default: 'utf8',
  }),
  mergeOutput,
  lines: option(ownFlag, {
    doc: 'Returns stdout, stderr and all as arrays of lines. Text only.',
    default: false,
  }),
  stripFinalNewline: option(flag, {
    doc: 'Removes one final newline from stdout, stderr and all. With `lines`, an explicit false keeps the line endings.',
    default: false,
  }),
  maxBuffer: option(bytes, {
    doc: 'Maximum output kept of each stream. Beyond it, the head and the tail are kept.',
    otherwise: "the sandbox's",
  }),
  outputLimit: option(bytes, {
    doc: 'Maximum output of both streams together. A command that prints more is killed and rejects with OUTPUT_LIMIT.',
    otherwise: 'no limit',
  }),
  check: option(flag, { doc: 'A failed command rejects with COMMAND_FAILED.', default: false }),
  verbose,
  ...outputCallbacks,
  onStart: option(callback, { doc: 'Called when the command starts.', otherwise: 'none' }),
  onComplete: option(callback, { doc: 'Called with the result before exec resolves.', otherwise: 'none' }),
  onError: option(callback, { doc: 'Called with the error before exec rejects.', otherwise: 'none' }),
}

/** Of `sandbox.exec` and `sandbox.execStream`. */
export const execOptions = {
  sessionId: option(identifier, { doc: 'The session to run in.', default: 'default' }),
  ...sessionExecOptions,
}
