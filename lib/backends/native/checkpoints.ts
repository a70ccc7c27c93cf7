/** The checkpoints of a sandbox in this process. */
import { engineError } from '../../base/errors.js'
import type { NativePoint } from '../../boundary/index.js'
import { checkpointOptions } from '../../protocol/workspace-options.js'
import type { Checkpoint, CheckpointOptions, Rollback } from '../../public/index.js'
import { readCheckpoint } from '../../requests/workspace.js'
import { readOptions } from '../../schema/read.js'
import { abortable, type Engine, returned, type Send } from './engine.js'

export class NativeCheckpoints {
  readonly #engine: Engine

  constructor(engine: Engine) {
    this.#engine = engine
  }

  async make(options?: CheckpointOptions): Promise<Checkpoint> {
    const { name = null, signal } = readOptions(checkpointOptions, options, 'checkpoint')
    const send: Send = (native, id) => native.checkpoint(id, name)
    return first(await abortable(this.#engine, 'the checkpoint', signal, send, ({ points }) => points))
  }

  async list(): Promise<Checkpoint[]> {
    const { points } = await this.#engine.call((native, id) => native.checkpoints(id))
    return returned(points).map(publicCheckpoint)
  }

  async delete(point: Checkpoint | string): Promise<void> {
    const number = readCheckpoint(point)
    await this.#engine.call((native, id) => native.deleteCheckpoint(id, number))
  }

  async rollBack(point: Checkpoint | string): Promise<Rollback> {
    const number = readCheckpoint(point)
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
