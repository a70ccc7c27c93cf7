/** The options of a sandbox. */

import { env } from '../schema/env.js'
import { isolation } from '../schema/isolation.js'
import { option } from '../schema/kind.js'
import { bytes, milliseconds } from '../schema/numbers.js'
import { directory, filePath } from '../schema/paths.js'
import { limits, user } from '../schema/process.js'
import { killSignal } from '../schema/signals.js'
import { flag, logger } from '../schema/values.js'

/** Of `new Sandbox`. */
export const sandboxOptions = {
  cwd: option(directory, {
    doc: 'Directory in which sessions start.',
    otherwise: '`process.cwd()` at construction',
  }),
  env: option(env, { doc: 'Variables, merged over the environment of this process.', otherwise: 'none' }),
  extendEnv: option(flag, {
    doc: 'Whether `env` extends or replaces the environment of this process.',
    default: true,
  }),
  shell: option(filePath, {
    doc: 'The shell to use: bash 4.4 or newer.',
    otherwise: 'the bash found on PATH',
  }),
  timeout: option(milliseconds, { doc: 'Time limit of each command; 0 = none.', default: 0 }),
  maxBuffer: option(bytes, {
    doc: 'Maximum output kept of each stream of a command. The default of execStream is 8 MiB.',
    default: 67_108_864,
  }),
  killSignal: option(killSignal, {
    doc: 'The first signal sent on a kill, a timeout or an abort.',
    default: 'SIGTERM',
  }),
  forceKillAfterDelay: option(milliseconds, {
    doc: 'Time between `killSignal` and SIGKILL.',
    default: 5000,
  }),
  surviveExit: option(flag, { doc: '`exit` ends only the command; the session continues.', default: true }),
  stateDir: option(directory, {
    doc: "Directory for the engine's own files, created with mode 0700.",
    otherwise: '`<os.tmpdir()>/nacre-<uid>`',
  }),
  jobsRoot: option(directory, {
    doc: 'Directory of durable jobs. Each job has a subdirectory.',
    otherwise:
      '`<os.tmpdir()>/sandbox-jobs`, or `<os.tmpdir()>/sandbox-jobs-<uid>` if another user owns that directory',
  }),
  user: option(user, {
    doc: 'The user to run as. This process must be root.',
    otherwise: 'the user of this process',
  }),
  limits: option(limits, { doc: 'Limits of everything in the sandbox together.', otherwise: 'none' }),
  isolation: option(isolation, {
    doc: 'What programs may read, write, reach and see.',
    otherwise: 'no restrictions',
  }),
  logger: option(logger, { doc: 'Receives engine diagnostics.', otherwise: 'none' }),
}
