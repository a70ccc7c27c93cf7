/** The checkpoints of the server's sandbox. */
import { engineError } from '../../base/errors.js'
import { checkpointOptions } from '../../calls/checkpoint.js'
import type { Checkpoint, Rollback, Undo } from '../../calls/index.js'
import { encodeOptions } from '../../protocol/codec.js'
import * as endpoints from '../../protocol/endpoints.js'
import type { CheckpointPlan } from '../../requests/workspace.js'
import type { CheckpointsBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import type { SessionQueues } from './session-queues.js'

export class HttpCheckpoints implements CheckpointsBackend {
  readonly #connection: Connection
  readonly #queues: SessionQueues

  constructor(connection: Connection, queues: SessionQueues) {
    this.#connection = connection
    this.#queues = queues
  }

  make(plan: CheckpointPlan): Promise<Checkpoint> {
    const body = encodeOptions(checkpointOptions, plan)
    const request = { body, cancel: plan.signal, subject: 'the checkpoint' }
    return this.#connection.call(endpoints.makeCheckpoint, request)
  }

  async list(): Promise<Checkpoint[]> {
    return (await this.#connection.call(endpoints.listCheckpoints)).checkpoints
  }

  async delete(number: number): Promise<void> {
    await this.#connection.call(endpoints.deleteCheckpoint, { params: { checkpointId: number } })
  }

  async fork(): Promise<never> {
    throw engineError(
      'WORKSPACE_UNSUPPORTED',
      'a server serves one sandbox, so a sandbox cannot be forked over HTTP: fork it in the program of the server',
    )
  }

  /** Rejects the commands that wait in this client, as the server rejects those that it has. */
  async rollBack(number: number): Promise<Rollback> {
    const done = await this.#connection.call(endpoints.rollBack, { params: { checkpointId: number } })
    this.#queues.destroyAll(engineError('ROLLED_BACK', undefined))
    return done
  }

  async undo(): Promise<Undo> {
    const done = await this.#connection.call(endpoints.undo)
    this.#queues.destroyAll(engineError('ROLLED_BACK', undefined))
    return done
  }
}
