/** What a server keeps for callers that do not return. */
import { expect, it } from 'vitest'
import { thrownBy } from '../../../__test__/helpers/thrown.js'
import { Callers } from '../lib/callers.js'

const MEBIBYTE = 1024 * 1024

/** A call of a new caller, and a function that looks it up again. */
function newCall(callers: Callers) {
  const headers = new Headers({ 'x-nacre-call': `${callers.register(60_000)}/1` })
  const find = () => callers.callOf(headers, { method: 'POST', url: 'http://localhost/v1/exec', body: {} })
  return { call: find(), find }
}

it('the replies of all callers are bounded together, and the oldest are dropped first', async () => {
  const callers = new Callers(new AbortController().signal)
  const calls = [1, 2, 3].map(() => newCall(callers))
  for (const { call } of calls) await call?.reply(async () => new Response(new Uint8Array(60 * MEBIBYTE)))
  const [first, second, third] = calls
  expect(thrownBy(() => first?.find())).toMatchObject({ code: 'CALL_FORGOTTEN' })
  expect(second?.find()).toBe(second?.call)
  expect(third?.find()).toBe(third?.call)
})
