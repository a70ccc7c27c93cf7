/** Calls of fleets that meet: creations that are deleted, aborted or closed meanwhile, and sandboxes that others use. */
import type { SandboxFleet } from '@nacre/fleet'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { Cluster } from './cluster/cluster.js'
import { CLAIMS } from './cluster/controller.js'

let cluster: Cluster

beforeAll(async () => {
  cluster = await new Cluster({ pool: 2 }).start()
}, 60_000)

afterEach(async () => {
  cluster.api.fault = () => undefined
  cluster.controller.resume()
  for (const claim of cluster.claims()) cluster.api.store.delete(CLAIMS + claim)
})

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

/** A creation whose claim is there and gets no pod. */
async function pending(fleet: SandboxFleet, id: string, signal?: AbortSignal) {
  cluster.controller.isPaused = true
  const creation = fleet.create({ id, ...(signal && { signal }) })
  creation.catch(() => {})
  await holds(() => cluster.claims().includes(id))
  return { creation }
}

describe('a creation', () => {
  it('rejects when its sandbox is deleted meanwhile', async () => {
    await using fleet = cluster.fleet()
    const { creation } = await pending(fleet, 'deleted')
    await fleet.delete('deleted')
    expect(await rejectionOf(creation)).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'deleted' } })
    expect(cluster.claims()).toEqual([])
  })

  it('rejects when its fleet is closed meanwhile, and leaves nothing', async () => {
    const fleet = cluster.fleet()
    const { creation } = await pending(fleet, 'closed')
    const waiting = rejectionOf(fleet.get('closed'))
    await fleet.close()
    expect(cluster.claims()).toEqual([])
    for (const error of [await rejectionOf(creation), await waiting])
      expect(error).toMatchObject({ code: 'SANDBOX_DESTROYED', message: 'the fleet has been closed' })
  })

  it('goes on when another one of its id is aborted, in the same fleet and in another', async () => {
    await using fleet = cluster.fleet()
    await using other = cluster.fleet()
    const abort = new AbortController()
    const { creation } = await pending(fleet, 'twin', abort.signal)
    const gets = cluster.api.counts.GET ?? 0
    const twins = [fleet.create({ id: 'twin' }), other.create({ id: 'twin' })]
    await holds(() => (cluster.api.counts.GET ?? 0) >= gets + twins.length)
    abort.abort(new Error('no more'))
    expect(await rejectionOf(creation)).toMatchObject({ name: 'AbortError' })
    cluster.controller.resume()
    for (const twin of twins) expect((await (await twin).client.exec('echo ok')).stdout).toBe('ok\n')
    expect(cluster.claims()).toEqual(['twin'])
  })
})

describe('a sandbox whose client was destroyed', () => {
  it('gets a new one', async () => {
    await using fleet = cluster.fleet()
    const sandbox = await fleet.create({ ttl: 2000 })
    await sandbox.client.exec('x=5')
    await sandbox.client.destroy()
    const again = await fleet.get(sandbox.id)
    expect((await again?.client.exec('echo $x'))?.stdout).toBe('5\n')
    expect(await fleet.create({ id: sandbox.id })).toBe(again)
    await fleet.delete(sandbox.id)
    expect(cluster.claims()).toEqual([])
  })

  it('is not given out while its claim is being deleted', async () => {
    await using fleet = cluster.fleet()
    const { id } = await fleet.create()
    cluster.api.store.patch(CLAIMS + id, { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } })
    expect(await fleet.get(id)).toBeNull()
    expect(await fleet.list()).toEqual([])
  })
})

describe('sandboxes of others', () => {
  it('are listed without a request for each', async () => {
    await using fleet = cluster.fleet()
    await Promise.all([fleet.create(), fleet.create()])
    await using other = cluster.fleet()
    const gets = cluster.api.counts.GET ?? 0
    expect(await other.list()).toHaveLength(2)
    await other.list()
    expect((cluster.api.counts.GET ?? 0) - gets).toBe(0)
  })

  it('can be used after a failure of the API server', async () => {
    await using fleet = cluster.fleet()
    const { id } = await fleet.create()
    await using other = cluster.fleet({ requestTimeout: 300, reconnectTimeout: 600 })
    cluster.api.fault = (_method, path) => (path.includes('/sandboxes/') ? 503 : undefined)
    const [found] = await other.list()
    expect(await rejectionOf(found?.client.exec('true') ?? Promise.resolve())).toMatchObject({
      code: 'CONNECTION_FAILED',
    })
    cluster.api.fault = () => undefined
    expect((await found?.client.exec('echo ok'))?.stdout).toBe('ok\n')
    expect((await (await other.get(id))?.client.exec('echo ok'))?.stdout).toBe('ok\n')
  })

  it('are lost as soon as they are looked up when their pod has ended', async () => {
    await using fleet = cluster.fleet()
    const { id } = await fleet.create()
    await cluster.controller.killPod(id)
    await using other = cluster.fleet()
    const lost = { code: 'SANDBOX_LOST', lost: { reason: 'stopped' } }
    expect(await rejectionOf(other.get(id))).toMatchObject(lost)
    expect(await rejectionOf(other.create({ id }))).toMatchObject(lost)
    const [listed] = await other.list()
    expect(await rejectionOf(listed?.client.exec('true') ?? Promise.resolve())).toMatchObject(lost)
  })
})

describe('what is no event of a watch', () => {
  it('ends the watch, and a new one begins', async () => {
    await using fleet = cluster.fleet()
    await using sandbox = await fleet.create()
    for (const line of [
      '{"type":"MODIFIED","obj',
      'null',
      '7',
      '{"type":"MODIFIED"}',
      '{"type":"ADDED","object":{}}',
    ]) {
      const lists = cluster.api.counts.LIST ?? 0
      await holds(() => cluster.api.watches > 0)
      cluster.api.sendLine(line)
      await until(
        () => (cluster.api.counts.LIST ?? 0) > lists || undefined,
        () => `the watch goes on after ${line}`,
      )
    }
    expect((await sandbox.client.exec('echo ok')).stdout).toBe('ok\n')
    await cluster.controller.killPod(sandbox.id)
    await until(
      () => sandbox.lost ?? undefined,
      () => 'the loss is not noticed',
    )
  }, 60_000)
})
