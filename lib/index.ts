/** What `nacre` exports. The public types are in `types/` at the top, written by hand. */
export { OptionError, SandboxError } from './errors'
export { createSandboxJobs } from './jobs/remote/jobs'
export { Sandbox } from './sandbox'
