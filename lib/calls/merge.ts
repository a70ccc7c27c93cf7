/** How sandboxes are merged. */

import { oneOf } from '../schema/constructors.js'
import { table } from '../schema/kind.js'
import { hostLabel } from '../schema/names.js'
import { abortSignal } from '../schema/signals.js'

/** Options of {@link Sandbox.merge}. */
export interface MergeOptions {
  /** The name of the new sandbox, as of a fork; see {@link ForkOptions}. Default: 'merge' with a number. */
  name?: string
  /**
   * What happens if changes do not go together. 'reject' rejects with WORKSPACE_CONFLICT, `paths` and `conflicts`, and there is no
   * new sandbox. 'markers' writes both versions of the lines into the file, between the markers of git; what has no lines stays as
   * in the sandboxes before, a file is what its merge driver has left, and what one has deleted and another changed is there. Default: 'reject'.
   */
  onConflict?: 'reject' | 'markers'
  /**
   * What happens if programs use a workspace. 'copy' stops them for the moment and copies what was changed; 'reject' rejects
   * with WORKSPACE_BUSY, which names them. Default: 'copy'.
   */
  busy?: 'copy' | 'reject'
  /** Ends the wait for running commands: the call rejects with an AbortError, and there is no new sandbox. Default: none. */
  signal?: AbortSignal
}

export const mergeOptions = table<MergeOptions>()({
  name: hostLabel,
  onConflict: { ...oneOf(['reject', 'markers']), default: 'reject' },
  busy: { ...oneOf(['copy', 'reject']), default: 'copy' },
  signal: abortSignal,
})
