/** What `nacre` exports. The public types are in `lib/public`. */

export { createSandboxJobs } from './backends/script/jobs.js'
export { OptionError, SandboxError } from './base/errors.js'
export { Sandbox } from './sandbox/sandbox.js'
