/** The feed of events of a server. It begins with the cursor of the last event, so that a reconnection loses nothing. */
import { deferred } from '../../base/deferred.js'
import { sandboxEvent } from '../../calls/events.js'
import type { SandboxEvent } from '../../calls/index.js'
import type { EventPlan } from '../../requests/events.js'
import type { Connection } from './connection.js'
import { ResumingStream } from './resuming.js'

/** A cursor before the first answer of the server. */
const NOW = -1

export class HttpEvents extends ResumingStream<SandboxEvent> {
  readonly #begin = deferred<number>()
  /** Resolves with the cursor at which it begins, after the first step has begun. */
  readonly begun = this.#begin.promise

  constructor(connection: Connection, { since = NOW, signal }: EventPlan) {
    super(connection, {
      cursor: since,
      signal,
      subject: 'reading the events',
      request: (cursor) => ({
        method: 'GET',
        path: '/v1/events',
        query: { since: cursor === NOW ? undefined : cursor },
      }),
      value: (data) => ({ value: sandboxEvent.decode(data), cursor: data.cursor }),
    })
  }

  /** Leaves the first event out, which only has the cursor. */
  protected override async step(): Promise<IteratorResult<SandboxEvent, undefined>> {
    for (;;) {
      const step = await super.step()
      if (step.done || (step.value.type as string) !== 'begin') return step
      this.#begin.resolve(step.value.cursor)
    }
  }
}
