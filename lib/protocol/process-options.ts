/** The options of background processes and services. */

import { processInput, serviceInput } from '../schema/command.js'
import { oneOf } from '../schema/constructors.js'
import { env } from '../schema/env.js'
import { option } from '../schema/kind.js'
import { identifier } from '../schema/names.js'
import { bytes, milliseconds, pause } from '../schema/numbers.js'
import { directory } from '../schema/paths.js'
import { limits, pty } from '../schema/process.js'
import { abortSignal, killSignal } from '../schema/signals.js'
import { callback, flag } from '../schema/values.js'
import { mergeOutput, outputCallbacks, verbose } from './output-options.js'

/** Of `session.startProcess`. */
export const sessionProcessOptions = {
  processId: option(identifier, {
    doc: 'The id of the process.',
    otherwise: '`proc-` and ten random characters',
  }),
  cwd: option(directory, {
    doc: "Directory of the process, relative to the session's.",
    otherwise: "the session's",
  }),
  env: option(env, { doc: 'Changes to the environment of the session.', otherwise: 'none' }),
  timeout: option(milliseconds, { doc: 'Time after which the process is killed; 0 = never.', default: 0 }),
  signal: option(abortSignal, { doc: 'Aborting kills the process.', otherwise: 'none' }),
  killSignal: option(killSignal, {
    doc: 'The first signal sent on a kill, a timeout or an abort.',
    otherwise: "the sandbox's",
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between `killSignal` and SIGKILL.',
    otherwise: "the sandbox's",
  }),
  input: option(processInput, {
    doc: "Standard input. 'pipe' keeps it open for `write`.",
    otherwise: 'end of file',
  }),
  logLimit: option(bytes, {
    doc: 'Maximum size of the log. Beyond it, the oldest output is dropped.',
    default: 67_108_864,
  }),
  autoCleanup: option(flag, {
    doc: 'Forgets the process and its log 60 s after the process ends, or earlier when many others have ended.',
    default: true,
  }),
  limits: option(limits, { doc: 'Limits of the process and its descendants.', otherwise: 'none' }),
  pty: option(pty, {
    doc: 'Gives the process a terminal of this size as standard input, output and error.',
    otherwise: 'no terminal',
  }),
  mergeOutput,
  verbose,
  onStart: option(callback, { doc: 'Called when the process has started.', otherwise: 'none' }),
  ...outputCallbacks,
  onExit: option(callback, {
    doc: 'Called when the process has ended, after its last output.',
    otherwise: 'none',
  }),
  onError: option(callback, {
    doc: 'Called with errors from callbacks, from the input and from a failed start.',
    otherwise: 'errors go to the logger',
  }),
}

/** Of `sandbox.startProcess`. */
export const processOptions = {
  sessionId: option(identifier, {
    doc: 'The session whose state the process starts from.',
    default: 'default',
  }),
  ...sessionProcessOptions,
}

/** Of `startService`, without `healthCheck`, which is required and has kinds of its own. */
export const serviceOptions = {
  ...processOptions,
  input: option(serviceInput, {
    doc: "Standard input, the same after each restart. 'pipe' keeps it open for `write`.",
    otherwise: 'end of file',
  }),
  restart: option(oneOf(['never', 'on-failure']), {
    doc: 'Whether to restart the process when it fails.',
    default: 'never',
  }),
  restartDelay: option(pause, {
    doc: 'Time before the first restart. Each consecutive failure doubles it, up to 30 s.',
    default: 500,
  }),
}

/** Of `kill`. */
export const killOptions = {
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between the first signal and SIGKILL.',
    otherwise: 'the value that the process was started with',
  }),
}
