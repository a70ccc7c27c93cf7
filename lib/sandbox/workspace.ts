/** The public object for a copy-on-write workspace: checks arguments and calls the backend. */
import { calledBy } from '../base/call-site.js'
import { isCode, OptionError } from '../base/errors.js'
import type {
  Change,
  Commit,
  NamedWorkspace,
  Workspace as PublicWorkspace,
  WorkspaceChangesOptions,
  WorkspaceCommitOptions,
  WorkspaceDiffOptions,
  WorkspaceDiscardOptions,
  WorkspaceUsage,
} from '../calls/index.js'
import { planOf } from '../protocol/endpoint.js'
import { workspaceCalls } from '../protocol/simple-calls.js'
import { planDiff } from '../requests/workspace.js'
import { readId } from '../schema/names.js'
import type { WorkspaceBackend } from './backend.js'

export class Workspace implements PublicWorkspace {
  readonly #backend: WorkspaceBackend

  constructor(backend: WorkspaceBackend) {
    this.#backend = backend
  }

  async info(): Promise<{ path: string; id: string | null }> {
    return calledBy(this.info, this.#backend.info())
  }

  async changes(options?: WorkspaceChangesOptions): Promise<Change[]> {
    return calledBy(this.changes, this.#backend.changes(planOf(workspaceCalls.changes, options)))
  }

  async diff(options?: WorkspaceDiffOptions): Promise<Uint8Array> {
    return calledBy(this.diff, this.#backend.diff(planDiff(options)))
  }

  async commit(options?: WorkspaceCommitOptions): Promise<Commit> {
    return calledBy(this.commit, this.#backend.commit(planOf(workspaceCalls.commit, options)))
  }

  async discard(options?: WorkspaceDiscardOptions): Promise<{ discarded: number }> {
    return calledBy(this.discard, this.#backend.discard(planOf(workspaceCalls.discard, options)))
  }

  async usage(): Promise<WorkspaceUsage> {
    return calledBy(this.usage, this.#backend.usage())
  }

  async list(): Promise<NamedWorkspace[]> {
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
    const info = await this.#backend.info().catch((error) => {
      if (!isCode(error, 'WORKSPACE_NOT_ENABLED')) throw error
    })
    if (info?.id != null) return info.id
    throw new OptionError('INVALID_ID', 'workspace.delete needs an id: this workspace has none')
  }
}
