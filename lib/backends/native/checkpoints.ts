/** The checkpoints, forks and merges of a sandbox in this process. */
import { SandboxError } from '../../base/errors.js'
import type { NativeMergeConflict, NativePoint } from '../../boundary/index.js'
import type { Checkpoint, MergeConflict, Merged, Rollback, Sandbox, Undo } from '../../calls/index.js'
import { checkpointNumber, type ForkPlan, type MergePlan } from '../../requests/workspace.js'
import type { CheckpointsBackend } from '../../sandbox/backend.js'
import { abortable, type Engine } from './engine.js'
import { runDrivers } from './merge-drivers.js'
import type { Revivals } from './processes/revivals.js'

/** A sandbox and its engine. */
export interface Branch {
  sandbox: Sandbox
  engine: Engine
  /** Called when it can be used. */
  open(): void
}

/** Makes a sandbox of this name, or of the next that begins with it. Throws OptionError if the name is taken. */
export type MakeBranch = (name: string, isNumbered: boolean) => Branch

export class NativeCheckpoints implements CheckpointsBackend {
  readonly #engine: Engine
  readonly #revivals: Revivals
  readonly #branch: MakeBranch

  /** `branch` makes a sandbox with the options of this one, which has not started. */
  constructor(engine: Engine, revivals: Revivals, branch: MakeBranch) {
    this.#engine = engine
    this.#revivals = revivals
    this.#branch = branch
  }

  async make({ name, busy, signal }: Parameters<CheckpointsBackend['make']>[0]): Promise<Checkpoint> {
    const made = await abortable(this.#engine, 'the checkpoint', signal, (native, id) =>
      native.checkpoint(id, name ?? null, busy === 'reject'),
    )
    return publicCheckpoint(made)
  }

  async list(): Promise<Checkpoint[]> {
    return (await this.#engine.call((native, id) => native.checkpoints(id))).map(publicCheckpoint)
  }

  async delete({ checkpointId }: { checkpointId: string }): Promise<void> {
    const number = checkpointNumber(checkpointId)
    await this.#engine.call((native, id) => native.deleteCheckpoint(id, number))
  }

  /** Makes sandboxes that go on with the present state. */
  async fork({ count, isOne, name, busy, signal }: ForkPlan): Promise<Sandbox[]> {
    const forks: Branch[] = []
    try {
      for (let made = 0; made < count; made++)
        forks.push(this.#branch(name ?? 'fork', !isOne || name === undefined))
      await abortable(this.#engine, 'the fork', signal, (native, id) => {
        const handles = forks.map(({ engine }) => engine.start())
        return native.fork(id, handles, busy === 'reject')
      })
    } catch (error) {
      await Promise.all(forks.map(({ engine }) => engine.destroy()))
      throw error
    }
    return forks.map(opened)
  }

  /** Makes a sandbox that goes on with the present state, and with what others have changed. */
  async merge(others: NativeCheckpoints[], { name, onConflict, busy, signal }: MergePlan): Promise<Merged> {
    const into = this.#branch(name ?? 'merge', name === undefined)
    try {
      const sides = others.map((other) => other.#engine.start())
      const found = await abortable(this.#engine, 'the merge', signal, (native, id) =>
        native.merge(id, sides, into.engine.start(), onConflict === 'markers', busy === 'reject'),
      )
      const driven = await runDrivers(into.sandbox, found, signal)
      const conflicts = [...found.conflicts.map(publicConflict), ...driven].sort(bySides)
      if (onConflict === 'reject' && conflicts.length > 0) throw conflictError(conflicts)
      return { sandbox: opened(into), conflicts }
    } catch (error) {
      await into.engine.destroy()
      throw error
    }
  }

  async rollBack({ checkpointId }: { checkpointId: string }): Promise<Rollback> {
    const done = await this.#return(checkpointNumber(checkpointId))
    const { point, endedProcesses, endedSessions, missing } = done
    return { checkpoint: publicCheckpoint(point), endedProcesses, endedSessions, missing }
  }

  async undo(): Promise<Undo> {
    const { command = '', endedProcesses, endedSessions, missing } = await this.#return(null)
    return { command, endedProcesses, endedSessions, missing }
  }

  async #return(number: number | null) {
    const rollBack = () => this.#engine.call((native, id) => native.rollBack(id, number))
    const [done, ended] = await this.#revivals.during(rollBack)
    return { ...done, endedProcesses: [...new Set([...done.endedProcesses, ...ended])] }
  }
}

function opened({ sandbox, open }: Branch): Sandbox {
  open()
  return sandbox
}

function publicCheckpoint({ number, name, createdAt, sessions }: NativePoint): Checkpoint {
  return { id: String(number), name: name ?? null, createdAt: new Date(createdAt), sessions }
}

/** In the order of the sandboxes, then of the paths. */
function bySides(one: MergeConflict, other: MergeConflict): number {
  const last = ({ sides }: MergeConflict) => sides.at(-1) ?? 0
  return last(one) - last(other) || Buffer.compare(Buffer.from(one.path), Buffer.from(other.path))
}

const decoder = new TextDecoder()

function publicConflict({ path, reason, sides, hunks }: NativeMergeConflict): MergeConflict {
  const text = (bytes: Uint8Array) => decoder.decode(bytes)
  return {
    path: text(path),
    reason,
    sides,
    hunks: hunks.map(({ line, ours, theirs }) => ({ line, ours: text(ours), theirs: text(theirs) })),
  }
}

function conflictError(conflicts: MergeConflict[]): SandboxError {
  const paths = [...new Set(conflicts.map(({ path }) => path))]
  const more = paths.length > 1 ? ` and ${paths.length - 1} more` : ''
  const sides = conflicts[0]?.sides.map((side) => `sandboxes[${side}]`).join(' and ')
  return new SandboxError(
    'WORKSPACE_CONFLICT',
    `the changes of '${paths[0]}'${more} do not go together, those of ${sides}: see conflicts, or use onConflict: 'markers'`,
    { paths, conflicts },
  )
}
