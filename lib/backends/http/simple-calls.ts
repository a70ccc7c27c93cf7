/** The client's methods of the simple calls: one for each entry of a table in `protocol/simple-calls.ts`. */
import { encodeOptions, sendable } from '../../protocol/codec.js'
import {
  type AnyCall,
  type CallsOf,
  type Endpoint,
  type SimpleCalls,
  takesSignal,
} from '../../protocol/endpoint.js'
import type { Connection } from './connection.js'
import type { Details } from './request.js'

/** A checked call. */
type Plan = Record<string, unknown>

/** Where the calls of an object go. */
export interface OnConnection {
  readonly connection: Connection
}

/** A class with a method for each call. `params` are those that the object knows: they are in no plan. */
export function withCalls<const C extends SimpleCalls, Bound extends string = never>(
  calls: C,
): new (
  connection: Connection,
  params?: () => Record<Bound, string>,
) => CallsOf<C, Bound> & OnConnection {
  class Calls implements OnConnection {
    readonly connection: Connection
    readonly #params: () => object

    constructor(connection: Connection, params: () => object = () => ({})) {
      this.connection = connection
      this.#params = params
    }

    static {
      for (const [name, call] of Object.entries(calls))
        Object.defineProperty(Calls.prototype, name, {
          value(this: Calls, plan?: Plan): Promise<unknown> {
            const details = detailsOf(call, { ...plan, ...this.#params() })
            return this.connection.call(call as unknown as Endpoint<unknown>, details)
          },
        })
    }
  }
  return Calls as unknown as new (
    connection: Connection,
    params?: () => object,
  ) => CallsOf<C, Bound> & OnConnection
}

/** What a request has of a checked call: the options that cross HTTP, and those that stay here. */
function detailsOf(call: AnyCall, plan: Plan): Details {
  const { method, takes, subject, isCancelled, isIdempotent } = call
  const sent = encodeOptions(takes, plan)
  const signal = takesSignal(call) ? (plan.signal as AbortSignal | undefined) : undefined
  return {
    ...{ params: plan as NonNullable<Details['params']>, subject, isIdempotent },
    ...(sendable(takes).length > 0 &&
      (method === 'GET' ? { query: sent as Details['query'] } : { body: sent })),
    ...(isCancelled ? { cancel: signal } : { signal }),
    encoding: plan.encoding as Details['encoding'],
  }
}
