/** The copy-on-write workspace of a sandbox in this process. */
import { engineError, OptionError } from '../../base/errors.js'
import type { NativeChange, NativeEvent } from '../../boundary/index.js'
import type {
  Change,
  Commit,
  NamedWorkspace,
  Workspace,
  WorkspaceChangesOptions,
  WorkspaceCommitOptions,
  WorkspaceDiffOptions,
  WorkspaceDiscardOptions,
  WorkspaceUsage,
} from '../../public/index.js'
import { planChanges, planCommit, planDiff, planDiscard } from '../../requests/workspace.js'
import { readId } from '../../schema/names.js'
import { abortable, Engine, returned, type Send } from './engine.js'
import type { SandboxConfig } from './plan/sandbox.js'

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

export class NativeWorkspace implements Workspace {
  readonly #engine: Engine
  readonly #config: SandboxConfig

  constructor(engine: Engine, config: SandboxConfig) {
    this.#engine = engine
    this.#config = config
  }

  async info(): Promise<{ path: string; id: string | null }> {
    return { path: this.#root(), id: this.#config.workspace?.id ?? null }
  }

  async changes(options?: WorkspaceChangesOptions): Promise<Change[]> {
    const { paths, signal } = planChanges(options, this.#root())
    const send: Send = (native, id) => native.workspaceChanges(id, paths)
    const changes = await abortable(
      this.#engine,
      'the comparison',
      signal,
      send,
      (event) => event.workspaceChanges,
    )
    return changes.map(publicChange)
  }

  async diff(options?: WorkspaceDiffOptions): Promise<Uint8Array> {
    const { paths, signal, maxBytes } = planDiff(options, this.#root())
    const send: Send = (native, id) => native.workspaceDiff(id, paths, maxBytes)
    return await abortable(this.#engine, 'the comparison', signal, send, ({ data }) => data)
  }

  async commit(options?: WorkspaceCommitOptions): Promise<Commit> {
    const { paths, signal, force, sync } = planCommit(options, this.#root())
    const send: Send = (native, id) => native.workspaceCommit(id, paths, force, sync)
    const { applied, skipped } = await abortable(
      this.#engine,
      'the commit',
      signal,
      send,
      ({ commit }) => commit,
    )
    return { applied, skipped: skipped.map(({ path, reason }) => ({ path: decoder.decode(path), reason })) }
  }

  async discard(options?: WorkspaceDiscardOptions): Promise<{ discarded: number }> {
    const { paths, signal } = planDiscard(options, this.#root())
    const send: Send = (native, id) => native.workspaceDiscard(id, paths)
    return {
      discarded: await abortable(this.#engine, 'the discard', signal, send, ({ discarded }) => discarded),
    }
  }

  async usage(): Promise<WorkspaceUsage> {
    this.#root()
    const { usage } = await this.#engine.call((native, id) => native.workspaceUsage(id))
    return returned(usage)
  }

  async list(): Promise<NamedWorkspace[]> {
    const { workspaces } = await this.#apart((native, id) => native.listWorkspaces(id, this.#directory()))
    return returned(workspaces).map(({ name, path = null, inUse, usedAt }) => ({
      ...{ id: name, path, inUse, usedAt: new Date(usedAt * 1000).toISOString() },
    }))
  }

  async delete(id?: string): Promise<void> {
    const name = id === undefined ? this.#config.workspace?.id : readId(id)
    if (name === undefined)
      throw new OptionError('INVALID_ID', 'workspace.delete needs an id: this workspace has none')
    await this.#apart((native, call) => native.deleteWorkspace(call, this.#directory(), name))
  }

  /** Makes a call that needs no living sandbox. */
  async #apart(send: Send): Promise<NativeEvent> {
    const engine = new Engine({ ...this.#config, workspace: undefined }, undefined)
    try {
      return await engine.call(send)
    } finally {
      await engine.destroy()
    }
  }

  #directory(): string | null {
    return this.#config.workspace?.directory ?? null
  }

  #root(): string {
    const path = this.#config.workspace?.path
    if (path !== undefined) return path
    throw engineError(
      'WORKSPACE_NOT_ENABLED',
      "programs write to the real files: create the sandbox with workspace: 'copy-on-write'",
    )
  }
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
