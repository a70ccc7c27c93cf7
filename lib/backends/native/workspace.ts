/** The copy-on-write workspace of a sandbox in this process. */
import { engineError } from '../../base/errors.js'
import type { NativeChange } from '../../boundary/index.js'
import type { Change, Workspace, WorkspaceChangesOptions, WorkspaceUsage } from '../../public/index.js'
import { planChanges } from '../../requests/workspace.js'
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
    const { workspaceChanges } = await this.#engine.call((native, id) =>
      native.workspaceChanges(id, paths ?? null),
    )
    if (workspaceChanges === undefined) throw engineError('ENGINE_ERROR', 'the engine returned no changes')
    return workspaceChanges.map(publicChange)
  }

  async usage(): Promise<WorkspaceUsage> {
    this.#root()
    const { usage } = await this.#engine.call((native, id) => native.workspaceUsage(id))
    if (usage === undefined) throw engineError('ENGINE_ERROR', 'the engine returned no usage')
    return usage
  }

  #root(): string {
    if (this.#path !== undefined) return this.#path
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
