import type { Sandbox } from 'nacre'
import type { RemoteJobs } from 'nacre/client'

/** What a Sandbox and a SandboxClient have in common, as far as the tools use it. */
export type AnySandbox = Pick<
  Sandbox,
  | 'createSession'
  | 'getSession'
  | 'deleteSession'
  | 'startService'
  | 'workspace'
  | 'checkpoint'
  | 'checkpoints'
  | 'rollback'
  | 'undo'
> & {
  readonly jobs: Pick<RemoteJobs, 'start' | 'status' | 'read' | 'list' | 'cancel'>
}
