/** The options of a sandbox. */

import { type Kind, option } from '../options/option.js'
import { filePath } from '../options/paths.js'
import { user as readUser } from '../options/user.js'
import { logger as readLogger } from '../options/values.js'
import type { Logger } from '../public/index.js'
import { isolation } from './isolation-options.js'
import { bytes, directory, env, flag, killSignal, milliseconds } from './kinds.js'
import { limits } from './limits.js'

const shell: Kind<string> = { read: filePath, bounds: 'a path' }
const user: Kind<ReturnType<typeof readUser>> = { read: readUser, bounds: 'a name, or { uid, gid }' }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }

/** Of `new Sandbox`. */
export const sandboxOptions = {
  cwd: option(directory, {
    doc: 'Directory in which sessions start.',
    otherwise: '`process.cwd()` at construction',
  }),
  env: option(env, { doc: 'Environment, merged over that of this process.', otherwise: 'none' }),
  extendEnv: option(flag, { doc: '`env` extends the environment of this process.', default: true }),
  shell: option(shell, { doc: 'The shell: bash 4.4 or newer.', otherwise: 'the bash found on PATH' }),
  timeout: option(milliseconds, { doc: 'Time limit of each command; 0 = none.', default: 0 }),
  maxBuffer: option(bytes, {
    doc: 'Output kept of each stream of a command; execStream keeps 8 MiB by default.',
    default: 67_108_864,
  }),
  killSignal: option(killSignal, {
    doc: 'The first signal of a kill, a timeout or an abort.',
    default: 'SIGTERM',
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between that signal and SIGKILL.',
    default: 5000,
  }),
  surviveExit: option(flag, { doc: '`exit` ends the command and not the session.', default: true }),
  stateDir: option(directory, {
    doc: "Directory for the engine's own files, made with mode 0700.",
    otherwise: '`<os.tmpdir()>/nacre-<uid>`',
  }),
  jobsRoot: option(directory, {
    doc: 'Directory of durable jobs, one directory for each.',
    otherwise:
      "`<os.tmpdir()>/sandbox-jobs`, or `<os.tmpdir()>/sandbox-jobs-<uid>` when that is another user's",
  }),
  user: option(user, {
    doc: 'The user that everything runs as. This process must be root.',
    otherwise: 'the user of this process',
  }),
  limits: option(limits, { doc: 'What everything in the sandbox together may use.', otherwise: 'none' }),
  isolation: option(isolation, {
    doc: 'What programs may read, write, reach and see.',
    otherwise: 'no restrictions',
  }),
  logger: option(logger, { doc: 'Receives engine diagnostics.', otherwise: 'none' }),
}
