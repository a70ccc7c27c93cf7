/** What `@nacre/fleet` exports. The public types are in public.ts. */

export { OptionError, SandboxError } from 'nacre'
export { SandboxFleet } from './fleet.js'
