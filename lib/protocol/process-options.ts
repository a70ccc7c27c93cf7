/** The options of background processes and services. */

import { type Kind, option } from '../options/option.js'
import { processInput, repeatableInput, restartPolicy } from '../options/process-values.js'
import {
  abortSignal,
  bytes,
  callback,
  directory,
  env,
  flag,
  id,
  killSignal,
  milliseconds,
  oneOf,
  openableInput,
  pause,
} from './kinds.js'
import { terminalOptions } from './limit-options.js'
import { limits, terminalOption } from './limits.js'
import { mergeOutput, outputCallbacks, verbose } from './output-options.js'

const pty: Kind<ReturnType<typeof terminalOption>> = {
  read: terminalOption,
  json: { schema: { type: 'either', of: [{ type: 'boolean' }, { type: 'object', table: terminalOptions }] } },
  bounds: 'true for 80 x 24, or { cols, rows }',
}

/** Of `session.startProcess`. */
export const sessionProcessOptions = {
  processId: option(id, { doc: 'The id of the process.', otherwise: '`proc-` and ten random characters' }),
  cwd: option(directory, {
    doc: "Directory of the process, resolved against the session's.",
    otherwise: "the session's",
  }),
  env: option(env, { doc: "Environment changes over the session's.", otherwise: 'none' }),
  timeout: option(milliseconds, { doc: 'Time until the process is killed; 0 = none.', default: 0 }),
  signal: option(abortSignal, { doc: 'Aborting kills the process.', otherwise: 'none' }),
  killSignal: option(killSignal, {
    doc: 'The first signal of a kill, a timeout or an abort.',
    otherwise: "the sandbox's",
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between that signal and SIGKILL.',
    otherwise: "the sandbox's",
  }),
  input: option(openableInput(processInput, "text, bytes, an iterable of them, or 'pipe'"), {
    doc: "Standard input. With 'pipe' it stays open, for `write`.",
    otherwise: 'end of file',
  }),
  logLimit: option(bytes, { doc: 'Log kept; of more, the oldest is dropped.', default: 67_108_864 }),
  autoCleanup: option(flag, {
    doc: 'The process is forgotten, with its log, some time after its end.',
    default: true,
  }),
  limits: option(limits, { doc: 'What the process and its descendants may use.', otherwise: 'none' }),
  pty: option(pty, {
    doc: 'A terminal as standard input, output and error.',
    otherwise: 'no terminal',
  }),
  mergeOutput,
  verbose,
  onStart: option(callback, { doc: 'Called when it runs.', otherwise: 'none' }),
  ...outputCallbacks,
  onExit: option(callback, { doc: 'Called when it has ended, after the last output.', otherwise: 'none' }),
  onError: option(callback, {
    doc: 'Called with what a callback or the input throws, and when the start fails.',
    otherwise: 'the logger',
  }),
}

/** Of `sandbox.startProcess`. */
export const processOptions = {
  sessionId: option(id, { doc: 'The session whose state the process starts from.', default: 'default' }),
  ...sessionProcessOptions,
}

/** Of `startService`, without `healthCheck`, which is required and has kinds of its own. */
export const serviceOptions = {
  ...processOptions,
  input: option(openableInput(repeatableInput, "text, bytes or 'pipe'"), {
    doc: "Standard input, the same after each restart. With 'pipe' it stays open, for `write`.",
    otherwise: 'end of file',
  }),
  restart: option(oneOf(restartPolicy, 'never', 'on-failure'), {
    doc: 'What happens when the process fails.',
    default: 'never',
  }),
  restartDelay: option(pause, {
    doc: 'Time before the first restart; each failure in a row doubles it, up to 30 s.',
    default: 500,
  }),
}

/** Of `kill`. */
export const killOptions = {
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time until SIGKILL.',
    otherwise: 'as the process was started with',
  }),
}
