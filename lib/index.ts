/** What `nacre` exports. The public types are in `lib/public`. */
export { OptionError, SandboxError } from './errors.js'
export { createSandboxJobs } from './jobs/remote/jobs.js'
export { Sandbox } from './sandbox.js'
