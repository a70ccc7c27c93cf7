/** The options of a sandbox. */

import type { SandboxOptions } from '../calls/index.js'
import { env } from '../schema/env.js'
import { isolation } from '../schema/isolation.js'
import { table } from '../schema/kind.js'
import { bytes, milliseconds } from '../schema/numbers.js'
import { directory, directoryText, filePath } from '../schema/paths.js'
import { limits, user } from '../schema/process.js'
import { killSignal } from '../schema/signals.js'
import { flag, logger } from '../schema/values.js'
import { workspace } from '../schema/workspace.js'

/** Of `new Sandbox`. */
export const sandboxOptions = table<SandboxOptions>()({
  cwd: directory,
  env,
  extendEnv: { ...flag, default: true },
  shell: filePath,
  timeout: { ...milliseconds, default: 0 },
  maxBuffer: { ...bytes, default: 67_108_864 },
  killSignal: { ...killSignal, default: 'SIGTERM' },
  forceKillAfterDelay: { ...milliseconds, default: 5000 },
  surviveExit: { ...flag, default: true },
  stateDir: directoryText,
  jobsRoot: directory,
  user,
  limits,
  isolation,
  workspace: { ...workspace, default: 'direct' },
  logger,
})
