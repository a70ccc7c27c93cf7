/** The checkpoints of the server's sandbox. */
import { engineError } from '../../base/errors.js'
import type { Rollback, Undo } from '../../calls/index.js'
import * as endpoints from '../../protocol/endpoints.js'
import { checkpointCalls } from '../../protocol/simple-calls.js'
import type { CheckpointsBackend } from '../../sandbox/backend.js'
import type { Connection } from './connection.js'
import type { SessionQueues } from './session-queues.js'
import { withCalls } from './simple-calls.js'

export class HttpCheckpoints extends withCalls(checkpointCalls) implements CheckpointsBackend {
  readonly #queues: SessionQueues

  constructor(connection: Connection, queues: SessionQueues) {
    super(connection)
    this.#queues = queues
  }

  /** Rejects the commands that wait in this client, as the server rejects those that it has. */
  async rollBack(params: { checkpointId: string }): Promise<Rollback> {
    const done = await this.connection.call(endpoints.rollBack, { params })
    this.#queues.destroyAll(engineError('ROLLED_BACK', undefined))
    return done
  }

  async undo(): Promise<Undo> {
    const done = await this.connection.call(endpoints.undo)
    this.#queues.destroyAll(engineError('ROLLED_BACK', undefined))
    return done
  }
}
