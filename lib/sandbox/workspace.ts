/** The public object for a copy-on-write workspace: checks arguments and calls the backend. */
import { calledBy } from '../base/call-site.js'
import { ignoring, OptionError } from '../base/errors.js'
import type * as api from '../calls/index.js'
import { planOf } from '../protocol/endpoint.js'
import { workspaceCalls } from '../protocol/simple-calls.js'
import { planDiff } from '../requests/workspace.js'
import { readId } from '../schema/names.js'
import { checkPath } from '../schema/paths.js'
import type { WorkspaceBackend } from './backend.js'

export class Workspace implements api.Workspace {
  readonly #backend: WorkspaceBackend

  constructor(backend: WorkspaceBackend) {
    this.#backend = backend
  }

  async info(): Promise<{ path: string; id: string | null }> {
    return calledBy(this.info, this.#backend.info())
  }

  async changes(options?: api.WorkspaceChangesOptions): Promise<api.Change[]> {
    return calledBy(this.changes, this.#backend.changes(planOf(workspaceCalls.changes, options)))
  }

  async diff(options?: api.WorkspaceDiffOptions): Promise<Uint8Array> {
    return calledBy(this.diff, this.#backend.diff(planDiff(options)))
  }

  async review(options?: api.WorkspaceReviewOptions): Promise<api.Review> {
    return calledBy(this.review, this.#backend.review(planOf(workspaceCalls.review, options)))
  }

  async blame(path: string | Uint8Array): Promise<api.Blame | null> {
    return calledBy(this.blame, this.#backend.blame({ path: checkPath(path, 'path') }))
  }

  async commit(options?: api.WorkspaceCommitOptions): Promise<api.Commit> {
    return calledBy(this.commit, this.#backend.commit(planOf(workspaceCalls.commit, options)))
  }

  async discard(options?: api.WorkspaceDiscardOptions): Promise<{ discarded: number }> {
    return calledBy(this.discard, this.#backend.discard(planOf(workspaceCalls.discard, options)))
  }

  async usage(): Promise<api.WorkspaceUsage> {
    return calledBy(this.usage, this.#backend.usage())
  }

  async list(): Promise<api.NamedWorkspace[]> {
    return calledBy(this.list, this.#backend.list())
  }

  async delete(id?: string): Promise<void> {
    const name = id === undefined ? this.#ownId() : Promise.resolve(readId(id))
    return calledBy(
      this.delete,
      name.then((workspaceId) => this.#backend.delete({ workspaceId })),
    )
  }

  async #ownId(): Promise<string> {
    const info = await ignoring(this.#backend.info(), 'WORKSPACE_NOT_ENABLED')
    if (info?.id != null) return info.id
    throw new OptionError('INVALID_ID', 'workspace.delete needs an id: this workspace has none')
  }
}
