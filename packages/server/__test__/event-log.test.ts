/** The events that a call keeps until its client has them. */
import { expect, it } from 'vitest'
import { EventLog } from '../lib/event-log.js'
import type { EventSource } from '../lib/sse.js'

/** A source of numbered events, one at a time. */
function count(most: number): EventSource {
  let next = 0
  return {
    next: async () =>
      next < most
        ? { done: false, value: [{ data: { data: String(next++) } }] }
        : { done: true, value: undefined },
    return: async () => ({ done: true, value: undefined }),
  }
}

async function idsOf(source: EventSource): Promise<Array<number | undefined>> {
  const ids: Array<number | undefined> = []
  for (let step = await source.next(); !step.done; step = await source.next())
    ids.push(...step.value.map(({ id }) => id))
  return ids
}

const open = new AbortController().signal

const numbers = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

it('a connection gets many events in order', async () => {
  const log = new EventLog(count(60_000), () => ({}))
  expect(await idsOf(log.after(0, open))).toEqual(numbers(1, 60_000))
})

it('each connection gets the events after those that its client has', async () => {
  const log = new EventLog(count(10), () => ({}))
  const first = log.after(0, open)
  for (const id of [1, 2, 3, 4]) expect((await first.next()).value).toMatchObject([{ id }])
  // The client has three of them, and another connection.
  expect(await idsOf(log.after(3, open))).toEqual(numbers(4, 10))
  expect(await idsOf(first)).toEqual(numbers(5, 10))
  expect(() => log.after(1, open)).toThrow('the events after 1 have been dropped')
  await log.end()
  expect(await idsOf(log.after(10, open))).toEqual([])
})

it('one connection takes all of them when the server ends', async () => {
  const long = 'x'.repeat(300_000)
  const source = (most: number): EventSource => {
    const inner = count(most)
    return {
      ...inner,
      next: async () =>
        (await inner.next()).done
          ? { done: true, value: undefined }
          : { done: false, value: [{ data: { data: long } }] },
    }
  }
  expect(await idsOf(new EventLog(source(9), () => ({})).after(0, open))).toEqual(numbers(1, 4))
  expect(await idsOf(new EventLog(source(9), () => ({})).after(0, AbortSignal.abort()))).toEqual(
    numbers(1, 9),
  )
})
