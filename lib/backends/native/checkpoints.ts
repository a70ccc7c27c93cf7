/** The checkpoints of a sandbox in this process. */
import { engineError } from '../../base/errors.js'
import type { NativePoint } from '../../boundary/index.js'
import type { Checkpoint, Rollback } from '../../public/index.js'
import type { CheckpointPlan } from '../../requests/workspace.js'
import type { CheckpointsBackend } from '../../sandbox/backend.js'
import { abortable, type Engine, returned, type Send } from './engine.js'

export class NativeCheckpoints implements CheckpointsBackend {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  async make({ name, signal }: CheckpointPlan): Promise<Checkpoint> {
    const send: Send = (native, id) => native.checkpoint(id, name ?? null)
    return first(await abortable(this.#engine, 'the checkpoint', signal, send, ({ points }) => points))
  }

  async list(): Promise<Checkpoint[]> {
    const { points } = await this.#engine.call((native, id) => native.checkpoints(id))
    return returned(points).map(publicCheckpoint)
  }

  async delete(number: number): Promise<void> {
    await this.#engine.call((native, id) => native.deleteCheckpoint(id, number))
  }

  async rollBack(number: number): Promise<Rollback> {
    const { points, rollback } = await this.#engine.call((native, id) => native.rollBack(id, number))
    return { checkpoint: first(points), ...returned(rollback) }
  }
}

function first(points: NativePoint[] | undefined): Checkpoint {
  const [point] = returned(points)
  if (point === undefined) throw engineError('ENGINE_ERROR', 'the engine returned no checkpoint')
  return publicCheckpoint(point)
}

function publicCheckpoint({ number, name, createdAt, sessions }: NativePoint): Checkpoint {
  return { id: String(number), name: name ?? null, createdAt: new Date(createdAt).toISOString(), sessions }
}
