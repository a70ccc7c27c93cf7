/** Watchers whose events clients take. */
import { expect, it } from 'vitest'
import { type WatchEvent, Watchers } from '../lib/e2b/watch.js'
import { Hosted } from '../lib/hosted.js'

function hostedSandbox(): Hosted {
  const record = { id: 'own', env: {}, startedAt: 0, network: 'host' as const }
  const open = () => Promise.reject(new Error('it does not run'))
  const place = { open, sandboxes: '/', records: '/', home: '/home/user', user: 'user', isMounted: false }
  return new Hosted(record, place)
}

/** Reports nothing until the signal. */
async function* changesUntil(signal: AbortSignal): AsyncGenerator<WatchEvent> {
  await new Promise((resolve) => signal.addEventListener('abort', resolve))
}

it('are limited in number, also when many are opened at the same time', async () => {
  const hosted = hostedSandbox()
  const watchers = new Watchers()
  const create = () => watchers.create(hosted, async (signal) => changesUntil(signal))
  const all = await Promise.allSettled(Array.from({ length: 300 }, create))
  const created = all.flatMap((one) => (one.status === 'fulfilled' ? [one.value] : []))
  expect(created).toHaveLength(256)
  watchers.remove(hosted, created[0]?.watcherId ?? '')
  await create()
  await expect(create()).rejects.toThrow('at most 256 watchers')
  await hosted.halt()
  expect(hosted.onHalt.size).toBe(0)
})

it('that cannot be opened do not count', async () => {
  const hosted = hostedSandbox()
  const watchers = new Watchers()
  const refuse = () => watchers.create(hosted, () => Promise.reject(new Error('no such directory')))
  await expect(refuse()).rejects.toThrow('no such directory')
  const { size } = hosted.onHalt
  for (let count = 0; count < 300; count++) await expect(refuse()).rejects.toThrow('no such directory')
  expect(hosted.onHalt.size).toBe(size)
  expect([...hosted.parts.values()].flatMap((part) => part.inMemory())).toEqual([])
})
