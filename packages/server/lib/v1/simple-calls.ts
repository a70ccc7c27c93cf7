/** The routes of the simple calls: one for each entry of a table in `protocol/simple-calls.ts` of nacre. */
import { kinds } from 'nacre/internal'
import { protocol } from 'nacre/internal/server'
import { described } from '../document.js'
import { queryFlag, queryNumber } from '../parameters.js'
import { type Shape, shape } from '../request-json.js'
import type { Define } from '../route.js'
import type { Sendable } from '../wire.js'

type Method = (plan: object) => Promise<unknown>

/** `target` has the methods; a call of one process finds it by the parameters of its path. */
export function addSimpleCalls<C extends protocol.SimpleCalls, Bound extends string = never>(
  define: Define,
  calls: C,
  target: (params: Record<Bound, string>) => protocol.CallsOf<C, Bound> | Promise<protocol.CallsOf<C, Bound>>,
): void {
  for (const [name, call] of Object.entries(calls)) {
    const { args, required, options, takes, reply, ...rest } = call
    const members = { ...args, ...described(options) }
    const isEmpty = protocol.sendable(members).length === 0
    const inQuery = call.method === 'GET'
    const given = (inQuery ? shape(texts(members)) : shape(members, required)) as Shape<object>
    define({
      ...rest,
      reply: reply as Sendable<never> as Sendable<unknown>,
      query: isEmpty || !inQuery ? undefined : given,
      body: isEmpty || inQuery ? undefined : given,
      async handle({ params, query, body, signal }) {
        const values = { ...query, ...body, ...(protocol.takesSignal(call) && { signal }) }
        const plan = { ...params, ...kinds.readWithDefaults(takes, values, call.name) }
        const methods = (await target(params as Record<Bound, string>)) as Record<string, Method>
        return Reflect.apply(methods[name] as Method, methods, [plan])
      },
    })
  }
}

/** The options as text, as a query has them. */
function texts(options: kinds.OptionTable): kinds.OptionTable {
  const asText = protocol.sendable(options).map(([name, { json, ...option }]) => {
    const type = 'type' in json.schema ? json.schema.type : undefined
    if (type === 'number' || type === 'integer') return [name, queryNumber]
    return [name, type === 'boolean' ? queryFlag : { ...option, json }]
  })
  return Object.fromEntries(asText)
}
