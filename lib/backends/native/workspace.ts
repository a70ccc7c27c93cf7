/** The copy-on-write workspace of a sandbox in this process. */
import { engineError } from '../../base/errors.js'
import type { NativeChange } from '../../boundary/index.js'
import type {
  Change,
  Commit,
  Workspace,
  WorkspaceChangesOptions,
  WorkspaceCommitOptions,
  WorkspaceDiffOptions,
  WorkspaceDiscardOptions,
  WorkspaceUsage,
} from '../../public/index.js'
import { planChanges, planCommit, planDiff, planDiscard } from '../../requests/workspace.js'
import type { Engine } from './engine.js'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class NativeWorkspace implements Workspace {
  readonly #engine: Engine
  readonly #path: string | undefined

  constructor(engine: Engine, path: string | undefined) {
    this.#engine = engine
    this.#path = path
  }

  async info(): Promise<{ path: string }> {
    return { path: this.#root() }
  }

  async changes(options?: WorkspaceChangesOptions): Promise<Change[]> {
    const { paths } = planChanges(options, this.#root())
    const { workspaceChanges } = await this.#engine.call((native, id) => native.workspaceChanges(id, paths))
    return returned(workspaceChanges).map(publicChange)
  }

  async diff(options?: WorkspaceDiffOptions): Promise<Uint8Array> {
    const { paths, maxBytes } = planDiff(options, this.#root())
    const { data } = await this.#engine.call((native, id) => native.workspaceDiff(id, paths, maxBytes))
    return returned(data)
  }

  async commit(options?: WorkspaceCommitOptions): Promise<Commit> {
    const { paths, force, sync } = planCommit(options, this.#root())
    const { commit } = await this.#engine.call((native, id) => native.workspaceCommit(id, paths, force, sync))
    const { applied, skipped } = returned(commit)
    return { applied, skipped: skipped.map(({ path, reason }) => ({ path: decoder.decode(path), reason })) }
  }

  async discard(options?: WorkspaceDiscardOptions): Promise<{ discarded: number }> {
    const { paths } = planDiscard(options, this.#root())
    const { discarded } = await this.#engine.call((native, id) => native.workspaceDiscard(id, paths))
    return { discarded: returned(discarded) }
  }

  async usage(): Promise<WorkspaceUsage> {
    this.#root()
    const { usage } = await this.#engine.call((native, id) => native.workspaceUsage(id))
    return returned(usage)
  }

  #root(): string {
    if (this.#path !== undefined) return this.#path
    throw engineError(
      'WORKSPACE_NOT_ENABLED',
      "programs write to the real files: create the sandbox with workspace: 'copy-on-write'",
    )
  }
}

function returned<T>(value: T | undefined): T {
  if (value === undefined) throw engineError('ENGINE_ERROR', 'the engine returned no result')
  return value
}

function publicChange({ path, difference, now, before }: NativeChange): Change {
  const { kind, size, mode } = now ?? before ?? { kind: 'file', size: 0, mode: 0 }
  return {
    path: decoder.decode(path),
    pathBytes: path,
    type: difference,
    ...{ kind, size, mode, before: before ?? null },
  }
}
