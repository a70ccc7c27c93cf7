/** Sandboxes on Kubernetes: claims, their time to live, and what a fleet does when the API server fails. */
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { Cluster } from './cluster/cluster.js'
import { CLAIMS, NAMESPACE } from './cluster/controller.js'

let cluster: Cluster

beforeAll(async () => {
  cluster = await new Cluster({ pool: 2 }).start()
}, 60_000)

afterEach(async () => {
  cluster.api.fault = () => undefined
  cluster.api.watchFault = undefined
  for (const claim of cluster.claims()) cluster.api.store.delete(CLAIMS + claim)
})

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

function claim(id: string) {
  return cluster.api.store.get(CLAIMS + id)
}

function noClaims(): Promise<unknown> {
  return until(
    () => cluster.claims().length === 0 || undefined,
    () => `claims are left: ${cluster.claims()}`,
  )
}

describe('create', () => {
  it('gives a sandbox whose commands run in the pod of its claim', async () => {
    await using fleet = cluster.fleet()
    const sandbox = await fleet.create({ labels: { team: 'a' }, ttl: 60_000 })
    const { stdout } = await sandbox.client.exec('echo $SECRET')
    expect(stdout).toBe(`${cluster.controller.podOf(sandbox.id).secret}\n`)
    expect(sandbox.labels).toEqual({ team: 'a' })
    expect(sandbox.expiresAt.getTime()).toBeGreaterThan(Date.now() + 50_000)
    const { metadata, spec } = claim(sandbox.id)
    expect(metadata.labels.team).toBe('a')
    expect(spec).toMatchObject({
      warmPoolRef: { name: 'pool' },
      lifecycle: { shutdownPolicy: 'Delete' },
      additionalPodMetadata: { labels: { team: 'a' } },
    })
    await sandbox.destroy()
    expect(cluster.claims()).toEqual([])
    expect(await rejectionOf(sandbox.client.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
  })

  it('goes straight to the pod without a router', async () => {
    await using fleet = cluster.fleet({ direct: true })
    await using sandbox = await fleet.create()
    const { stdout } = await sandbox.client.exec('echo $SECRET')
    expect(stdout).toBe(`${cluster.controller.podOf(sandbox.id).secret}\n`)
  })

  it('gives the sandbox that has the id already', async () => {
    await using fleet = cluster.fleet()
    await using other = cluster.fleet()
    const [first, second] = await Promise.all([fleet.create({ id: 'same' }), other.create({ id: 'same' })])
    await first.client.exec('x=5')
    expect((await second.client.exec('echo $x')).stdout).toBe('5\n')
    expect(await fleet.create({ id: 'same' })).toBe(first)
    expect(cluster.claims()).toEqual(['same'])
  })

  it.each([
    ['watch', 401, 'check the credentials'],
    ['watch', 403, 'allow its user all verbs'],
    ['watch', 404, 'agent-sandbox and its extensions are installed'],
    ['list', 403, 'allow its user all verbs'],
  ] as const)(
    'rejects immediately when the API server refuses the %s with %d',
    async (verb, status, remedy) => {
      await using fleet = cluster.fleet({ createTimeout: 120_000 })
      if (verb === 'watch') cluster.api.watchFault = status
      else cluster.api.fault = (method, path) => (method === 'GET' && path.endsWith('s') ? status : undefined)
      cluster.controller.isPaused = true
      // The second one begins in the pause before the next attempt.
      for (const _ of [1, 2, 3, 4]) {
        const error = await rejectionOf(fleet.create())
        expect(error).toMatchObject({ code: 'REQUEST_REFUSED' })
        expect(error.message).toContain(`status ${status}: `)
        expect(error.message).toContain(
          verb === 'watch' ? 'cannot watch sandboxclaims; ' : 'a fault of the test; ',
        )
        expect(error.message).toContain(remedy)
      }
      cluster.api.watchFault = undefined
      cluster.api.fault = () => undefined
      cluster.controller.resume()
      await using sandbox = await fleet.create()
      expect((await sandbox.client.exec('echo up')).stdout).toBe('up\n')
    },
  )

  it('refuses the id of a claim that is not of a fleet, or of another pool', async () => {
    await using fleet = cluster.fleet()
    const metadata = { name: 'foreign', namespace: NAMESPACE }
    cluster.api.store.create(`${CLAIMS}foreign`, { metadata, spec: { warmPoolRef: { name: 'pool' } } })
    expect(await rejectionOf(fleet.create({ id: 'foreign' }))).toMatchObject({ code: 'REQUEST_REFUSED' })
    expect(await fleet.get('foreign')).toBeNull()
    await fleet.delete('foreign')
    expect(cluster.claims()).toEqual(['foreign'])
  })

  it('succeeds although the API server fails, loses replies and breaks connections', async () => {
    const faults = [500, 'lose-reply', 429, 'break', 503, 'lose-reply'] as const
    let requests = 0
    cluster.api.fault = () => faults[requests++]
    await using fleet = cluster.fleet()
    await using sandbox = await fleet.create()
    expect(requests).toBeGreaterThan(faults.length)
    expect((await sandbox.client.exec('echo ok')).stdout).toBe('ok\n')
    expect(cluster.claims()).toEqual([sandbox.id])
  })

  it('waits for the controller across a restart of the API server and a history that is gone', async () => {
    await using fleet = cluster.fleet()
    cluster.controller.isPaused = true
    const creating = fleet.create()
    await until(
      () => cluster.claims()[0] && cluster.api.watches > 0,
      () => 'no claim',
    )
    await cluster.api.stop()
    cluster.controller.resume()
    cluster.api.store.compact()
    await cluster.api.start()
    await using sandbox = await creating
    expect((await sandbox.client.exec('echo ok')).stdout).toBe('ok\n')
  })

  it('leaves no claim when it is not ready in time', async () => {
    await using fleet = cluster.fleet()
    cluster.controller.isPaused = true
    const error = await rejectionOf(fleet.create({ timeout: 2000 }))
    expect(error).toMatchObject({ code: 'SANDBOX_NOT_READY' })
    expect(error.message).toContain('the claim has no condition Ready')
    await noClaims()
    cluster.controller.resume()
  })

  it('leaves no claim when it is aborted, also when the reply with the claim was lost', async () => {
    await using fleet = cluster.fleet()
    for (const fault of [undefined, 'lose-reply'] as const) {
      cluster.controller.isPaused = true
      cluster.api.fault = (method) => (method === 'POST' ? fault : undefined)
      const abort = new AbortController()
      const creating = rejectionOf(fleet.create({ signal: abort.signal }))
      await until(
        () => cluster.claims()[0],
        () => 'no claim',
      )
      abort.abort(new Error('no more'))
      expect(await creating).toMatchObject({ name: 'AbortError', cause: new Error('no more') })
      await noClaims()
      cluster.controller.resume()
    }
  })

  it('reports what the API server refuses', async () => {
    cluster.api.fault = (method) => (method === 'POST' ? 403 : undefined)
    await using fleet = cluster.fleet()
    const error = await rejectionOf(fleet.create())
    expect(error).toMatchObject({ code: 'REQUEST_REFUSED' })
    expect(error.message).toContain('status 403')
    await noClaims()
  })
})

describe('get, list and delete', () => {
  it('find the sandboxes that other programs have created', async () => {
    await using fleet = cluster.fleet()
    await using other = cluster.fleet()
    const created = await Promise.all([
      fleet.create({ id: 'one', labels: { a: 'b' } }),
      fleet.create({ id: 'two' }),
    ])
    await created[0].client.exec('x=1')
    const found = await other.get('one')
    expect(found?.labels).toEqual({ a: 'b' })
    expect((await found?.client.exec('echo $x'))?.stdout).toBe('1\n')
    const list = await other.list()
    expect(list.map(({ id }) => id).sort()).toEqual(['one', 'two'])
    const secrets = await Promise.all(list.map(({ client }) => client.exec('echo $SECRET')))
    expect(new Set(secrets.map(({ stdout }) => stdout)).size).toBe(2)
    await other.delete('one')
    await other.delete('one')
    expect(await other.get('one')).toBeNull()
    expect(await fleet.get('none')).toBeNull()
    await other.delete('none')
    expect(cluster.claims()).toEqual(['two'])
  })

  it('delete a sandbox although the reply was lost', async () => {
    await using fleet = cluster.fleet()
    const sandbox = await fleet.create()
    let deletions = 0
    cluster.api.fault = (method) => (method === 'DELETE' && deletions++ === 0 ? 'lose-reply' : undefined)
    await sandbox.destroy()
    expect(deletions).toBe(2)
    expect(cluster.claims()).toEqual([])
  })
})

describe('the time to live', () => {
  it('is extended while the sandbox is used, by few writes, and ends it when it is not', async () => {
    await using fleet = cluster.fleet()
    const sandbox = await fleet.create({ ttl: 4000 })
    const before = cluster.api.counts.PATCH ?? 0
    const created = performance.now()
    await sandbox.client.exec('sleep 5')
    while (performance.now() - created < 7000) await sandbox.client.exec('true')
    const patches = (cluster.api.counts.PATCH ?? 0) - before
    // Four looks in the time to live.
    expect(patches).toBeLessThanOrEqual(Math.ceil((performance.now() - created) / 1000) + 1)
    expect(patches).toBeGreaterThan(2)
    await until(
      () => sandbox.lost ?? undefined,
      () => 'the sandbox has not expired',
    )
    expect(sandbox.lost).toMatchObject({ reason: 'expired', sandbox: sandbox.id })
    expect(cluster.claims()).toEqual([])
    expect(await rejectionOf(sandbox.client.exec('true'))).toMatchObject({
      code: 'SANDBOX_LOST',
      lost: { reason: 'expired' },
    })
  })

  it('is extended although the claim has changed meanwhile', async () => {
    await using fleet = cluster.fleet()
    await using sandbox = await fleet.create({ ttl: 4000 })
    const version = claim(sandbox.id).metadata.resourceVersion
    let conflicts = 0
    cluster.api.fault = (method) => {
      if (method !== 'PATCH' || conflicts > 1) return undefined
      conflicts++
      cluster.api.store.patch(CLAIMS + sandbox.id, {
        metadata: { annotations: { other: String(conflicts) } },
      })
      return undefined
    }
    const end = performance.now() + 6000
    while (performance.now() < end || conflicts < 2) await sandbox.client.exec('true')
    expect(conflicts).toBe(2)
    expect(sandbox.lost).toBeNull()
    expect(claim(sandbox.id).metadata.annotations.other).toBe('2')
    expect(Number(claim(sandbox.id).metadata.resourceVersion)).toBeGreaterThan(Number(version) + 2)
  })
})
