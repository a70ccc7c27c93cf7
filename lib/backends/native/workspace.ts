/** The copy-on-write workspace of a sandbox in this process. */

import { timers } from '../../base/builtin.js'
import { engineError, invalidOption } from '../../base/errors.js'
import type {
  NativeChanges,
  NativeHunk,
  NativeHunkChoice,
  NativeReviewed,
  NativeSandbox,
  Pending,
} from '../../boundary/index.js'
import type {
  Blame,
  Change,
  Commit,
  Hunk,
  NamedWorkspace,
  Review,
  WorkspaceUsage,
} from '../../calls/index.js'
import type { DiffPlan } from '../../requests/workspace.js'
import type { WorkspaceBackend } from '../../sandbox/backend.js'
import type { CheckedPath } from '../../schema/paths.js'
import { abortable, callApart, type Engine } from './engine.js'
import type { SandboxConfig } from './plan/sandbox.js'
import { pathBelow, pathsBelow } from './plan/workspace-paths.js'

const { setImmediate } = timers

const decoder = new TextDecoder('utf-8', { ignoreBOM: true })

/** What is compared, applied or taken back. */
type ChangesPlan = Parameters<WorkspaceBackend['changes']>[0]

export class NativeWorkspace implements WorkspaceBackend {
  readonly #engine: Engine
  readonly #config: SandboxConfig

  constructor(engine: Engine, config: SandboxConfig) {
    this.#engine = engine
    this.#config = config
  }

  async info(): Promise<{ path: string; id: string | null }> {
    return { path: this.#root(), id: this.#config.workspace?.id ?? null }
  }

  async changes({ paths, signal }: ChangesPlan): Promise<Change[]> {
    const selected = pathsBelow(this.#root(), paths)
    const changes = await abortable(this.#engine, 'the comparison', signal, (native, id) =>
      native.workspaceChanges(id, selected),
    )
    return publicChanges(changes)
  }

  async diff({ paths, signal, maxBytes }: DiffPlan): Promise<Uint8Array> {
    const selected = pathsBelow(this.#root(), paths)
    return await abortable(this.#engine, 'the comparison', signal, (native, id) =>
      native.workspaceDiff(id, selected, maxBytes),
    )
  }

  async review({ paths, signal, maxBytes }: Parameters<WorkspaceBackend['review']>[0]): Promise<Review> {
    const selected = pathsBelow(this.#root(), paths)
    const { changes, reviewed } = await abortable(this.#engine, 'the comparison', signal, (native, id) =>
      native.workspaceReview(id, selected, maxBytes),
    )
    const review: Review = { runsLater: [], generated: [], large: [], binary: [], source: [] }
    for (const [index, change] of (await publicChanges(changes)).entries()) {
      const { group, reason, added, removed, hunks, without } = reviewed[index] as NativeReviewed
      review[group].push({
        ...change,
        ...(reason != null && { reason }),
        ...{ added, removed, hunks: hunks.map(publicHunk) },
        ...(without != null && { withoutHunks: without }),
      })
    }
    return review
  }

  async blame({ path }: { path: CheckedPath }): Promise<Blame | null> {
    const wanted = pathBelow(this.#root(), path)
    const found = await this.#engine.call((native, id) => native.workspaceBlame(id, wanted))
    if (found == null) return null
    const { command, sessions, startedAt, kind, steps } = found
    return { command, sessions, startedAt: new Date(startedAt), type: kind, undos: steps }
  }

  async commit(plan: Parameters<WorkspaceBackend['commit']>[0]): Promise<Commit> {
    const { paths, hunks = [], signal, force, sync, branch, message } = plan
    if ((branch === undefined) !== (message === undefined))
      throw invalidOption(branch === undefined ? 'message needs a branch' : 'branch needs a message')
    if (branch !== undefined && hunks.length > 0)
      throw invalidOption('hunks are not for a branch: leave one of them out')
    const selected = pathsBelow(this.#root(), paths)
    const chosen = this.#hunks(hunks)
    const done = await abortable(this.#engine, 'the commit', signal, (native, id) =>
      branch === undefined || message === undefined
        ? native.workspaceCommit(id, selected, chosen, force, sync)
        : native.workspaceCommitToBranch(id, selected, branch, message, force),
    )
    const skipped = done.skipped.map(({ path, reason }) => ({ path: decoder.decode(path), reason }))
    return { applied: done.applied, skipped, ...(done.id != null && { id: done.id }) }
  }

  async discard(plan: Parameters<WorkspaceBackend['discard']>[0]): Promise<{ discarded: number }> {
    const { paths, hunks = [], signal } = plan
    const selected = pathsBelow(this.#root(), paths)
    const chosen = this.#hunks(hunks)
    const discarded = await abortable(this.#engine, 'the discard', signal, (native, id) =>
      native.workspaceDiscard(id, selected, chosen),
    )
    return { discarded }
  }

  async usage(): Promise<WorkspaceUsage> {
    this.#root()
    return await this.#engine.call((native, id) => native.workspaceUsage(id))
  }

  async list(): Promise<NamedWorkspace[]> {
    const workspaces = await this.#apart((native, id, directory) => native.listWorkspaces(id, directory))
    return workspaces.map(({ name, path = null, inUse, usedAt }) => ({
      ...{ id: name, path, inUse, usedAt: new Date(usedAt * 1000) },
    }))
  }

  async delete({ workspaceId }: { workspaceId: string }): Promise<void> {
    await this.#apart((native, id, directory) => native.deleteWorkspace(id, directory, workspaceId))
  }

  /** Makes a call that needs no living sandbox, with the directory of the layers. */
  #apart<T>(send: (native: NativeSandbox, id: number, directory: string | null) => Pending<T>): Promise<T> {
    const { workspace, ...config } = this.#config
    return callApart(config, (native, id) => send(native, id, workspace?.directory ?? null))
  }

  #hunks(choices: { path: CheckedPath; ids: string[] }[]): NativeHunkChoice[] {
    const root = this.#root()
    return choices.map(({ path, ids }) => ({ path: pathBelow(root, path), ids }))
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

/** Changes that are made without a turn of the event loop. */
const AT_ONCE = 500

const TYPES: Record<string, Change['type']> = {
  ...{ c: 'created', m: 'modified', d: 'deleted', r: 'replaced', a: 'metadata' },
}
const KINDS: Record<string, Change['kind']> = {
  ...{ f: 'file', d: 'directory', l: 'symlink', i: 'fifo', s: 'socket', v: 'device' },
}

function publicHunk({ id, lines, added, removed, text }: NativeHunk): Hunk {
  const [beforeStart = 0, beforeLines = 0, start = 0, count = 0] = lines
  return { id, beforeStart, beforeLines, start, lines: count, added, removed, text: decoder.decode(text) }
}

async function publicChanges({ paths, kinds, numbers, withheld }: NativeChanges): Promise<Change[]> {
  const reasons = new Map(withheld.map(({ index, reason }) => [index, reason]))
  const entry = (index: number, side: 0 | 1) => {
    const kind = KINDS[String.fromCharCode(kinds[index * 3 + 1 + side] ?? 0)]
    const [size = 0, mode = 0] = numbers.subarray(index * 4 + side * 2)
    return kind && { kind, size, mode }
  }
  const changes: Change[] = []
  for (let start = 0, index = 0; start < paths.length; index++) {
    const end = paths.indexOf(0, start)
    const [now, before] = [entry(index, 0), entry(index, 1)]
    // A copy: the bytes of all paths are one buffer.
    const path = Buffer.from(paths.subarray(start, end))
    const reason = reasons.get(index)
    changes.push({
      path: decoder.decode(path),
      pathBytes: path,
      type: TYPES[String.fromCharCode(kinds[index * 3] ?? 0)] ?? 'modified',
      ...(now ?? before ?? { kind: 'file', size: 0, mode: 0 }),
      before: before ?? null,
      ...(reason !== undefined && { withheld: reason }),
    })
    start = end + 1
    if (index % AT_ONCE === AT_ONCE - 1) await setImmediate()
  }
  return changes
}
