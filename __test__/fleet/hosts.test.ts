/** Sandboxes on a list of hosts: sessions with the interface of sandboxes. */
import { Sandbox } from 'nacre'
import { SandboxFleet } from 'nacre/fleet'
import { type Serving, serve } from 'nacre/server'
import { afterEach, describe, expect, it } from 'vitest'
import { failingProxy } from '../helpers/failing-proxy.js'
import { freePort } from '../helpers/serving.js'
import { stoppingProxy } from '../helpers/tcp-proxy.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const token = 'a-token-of-the-tests'
const running: Array<{ sandbox: Sandbox; serving: Serving }> = []
const fleets: SandboxFleet[] = []

afterEach(async () => {
  await Promise.all(fleets.splice(0).map((fleet) => fleet.close()))
  for (const { sandbox, serving } of running.splice(0)) {
    await serving.close()
    await sandbox.destroy()
  }
})

async function host(port = 0) {
  const sandbox = new Sandbox()
  const serving = await serve(sandbox, { port, token, handleSignals: false })
  const started = { sandbox, serving }
  running.push(started)
  return started
}

function fleetOf(hosts: string[], options = {}): SandboxFleet {
  const fleet = new SandboxFleet({ hosts, token, reconnectTimeout: 300, ...options })
  fleets.push(fleet)
  return fleet
}

describe('a fleet of hosts', () => {
  it('puts each sandbox on the host with the fewest sessions, and keeps their shells apart', async () => {
    const [one, two] = [await host(), await host()]
    await one.sandbox.createSession({ id: 'busy' })
    const fleet = fleetOf([one.serving.url, two.serving.url])
    const sandboxes = []
    for (let count = 0; count < 3; count++) sandboxes.push(await fleet.create())
    const counts = await Promise.all(
      [one, two].map(async ({ sandbox }) => (await sandbox.listSessions()).length),
    )
    expect(Math.abs((counts[0] ?? 0) - (counts[1] ?? 0))).toBeLessThanOrEqual(1)
    await Promise.all(sandboxes.map(({ client, id }) => client.exec(`name=${id}; cd /usr`)))
    for (const { client, id } of sandboxes)
      expect((await client.exec('echo $name; pwd')).stdout).toBe(`${id}\n/usr\n`)
    const names = (await fleet.list()).map(({ id }) => id).sort()
    expect(names).toEqual(sandboxes.map(({ id }) => id).sort())
    await fleet.delete(sandboxes[0]?.id ?? '')
    expect(await fleet.list()).toHaveLength(2)
    await fleet.close()
    expect((await one.sandbox.listSessions()).map(({ id }) => id)).toContain('busy')
    expect((await two.sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
  })

  it('creates one sandbox for each id, which other fleets find', async () => {
    const { serving } = await host()
    const fleet = fleetOf([serving.url])
    const [first, second] = await Promise.all([fleet.create({ id: 'same' }), fleet.create({ id: 'same' })])
    expect(first).toBe(second)
    await first.client.exec('x=5')
    const other = fleetOf([serving.url])
    expect((await (await other.create({ id: 'same' })).client.exec('echo $x')).stdout).toBe('5\n')
    expect(await other.get('none')).toBeNull()
    await other.close()
    expect((await first.client.exec('echo $x')).stdout).toBe('5\n')
  })

  it('shows a sandbox its own sessions and processes only', async () => {
    const { serving, sandbox } = await host()
    const foreign = await sandbox.startProcess('sleep 60')
    const fleet = fleetOf([serving.url])
    const { client } = await fleet.create()
    const session = await client.createSession({ id: 'inner' })
    await session.exec('y=1')
    await client.startProcess('sleep 60', { sessionId: 'inner', processId: 'own' })
    expect((await client.listSessions()).map(({ id }) => id).sort()).toEqual(['default', 'inner'])
    expect((await client.listProcesses()).map(({ id }) => id)).toEqual(['own'])
    expect(await client.killAllProcesses()).toBe(1)
    expect(await foreign.getStatus()).toBe('running')
    expect((await (await client.getSession('inner'))?.exec('echo $y'))?.stdout).toBe('1\n')
  })

  it('deletes a sandbox that is not used', async () => {
    const { serving, sandbox } = await host()
    const fleet = fleetOf([serving.url], { ttl: 1000 })
    const idle = await fleet.create()
    await until(
      () => idle.lost ?? undefined,
      () => 'it is still there',
    )
    expect(idle.lost?.reason).toBe('expired')
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    expect(await rejectionOf(idle.client.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
  })

  it('is not deleted by another fleet that does not use it', async () => {
    const { serving } = await host()
    const fleet = fleetOf([serving.url])
    const { id, client } = await fleet.create()
    const other = fleetOf([serving.url], { ttl: 1000 })
    const same = await other.get(id)
    const listed = (await other.list()).find((sandbox) => sandbox.id === id)
    // These are newer, and expire one after the other.
    for (let round = 0; round < 2; round++) {
      const own = await other.create()
      await until(
        () => own.lost ?? undefined,
        () => 'it is still there',
      )
    }
    expect([same?.lost, listed?.lost]).toEqual([null, null])
    expect((await client.exec('echo ok')).stdout).toBe('ok\n')
    await other.close()
    expect((await client.exec('echo ok')).stdout).toBe('ok\n')
  })

  it('goes on creating a sandbox when one of two calls for it is aborted', async () => {
    const { serving } = await host()
    const proxy = await stoppingProxy(Number(new URL(serving.url).port))
    try {
      const fleet = fleetOf([`http://127.0.0.1:${proxy.port}`], { reconnectTimeout: 10_000 })
      expect(await fleet.list()).toEqual([])
      proxy.cut()
      const abort = new AbortController()
      const aborted = rejectionOf(fleet.create({ id: 'same', signal: abort.signal }))
      const other = fleet.create({ id: 'same' })
      abort.abort()
      expect(await aborted).toMatchObject({ name: 'AbortError' })
      proxy.heal()
      expect((await (await other).client.exec('echo ok')).stdout).toBe('ok\n')
      // When all have given up, the next call begins anew.
      proxy.cut()
      const last = new AbortController()
      const given = rejectionOf(fleet.create({ id: 'next', signal: last.signal }))
      last.abort()
      await given
      const next = fleet.create({ id: 'next' })
      proxy.heal()
      expect((await (await next).client.exec('echo ok')).stdout).toBe('ok\n')
      await fleet.close()
    } finally {
      await proxy.close()
    }
  }, 20_000)

  it('reads a file although connections break', async () => {
    const { serving } = await host()
    const proxy = await failingProxy(Number(new URL(serving.url).port))
    try {
      const fleet = fleetOf([proxy.url], { reconnectTimeout: 5000 })
      const { client } = await fleet.create()
      await client.files.write('/tmp/nacre-fleet-read', 'content')
      proxy.next.push('cut', 503, 'lose')
      expect(await client.files.read('/tmp/nacre-fleet-read')).toBe('content')
      await client.files.remove('/tmp/nacre-fleet-read')
      await fleet.close()
    } finally {
      await proxy.close()
    }
  })

  it('leaves nothing when it is aborted while the host makes the session', async () => {
    const { serving, sandbox } = await host()
    const proxy = await failingProxy(Number(new URL(serving.url).port))
    try {
      const fleet = fleetOf([proxy.url], { reconnectTimeout: 5000 })
      for (let round = 0; round < 10; round++) {
        proxy.requests.length = 0
        const abort = new AbortController()
        const creations = Array.from({ length: 10 }, () => fleet.create({ signal: abort.signal }))
        const ends = creations.map((creation) =>
          creation.then(
            (created) => created.delete(),
            (error) => expect(error).toMatchObject({ name: 'AbortError' }),
          ),
        )
        const making = () => proxy.requests.filter(({ line }) => line === 'POST /v1/sessions').length
        await until(
          () => making() > round || undefined,
          () => 'no session is made',
        )
        abort.abort()
        await Promise.all(ends)
      }
      await fleet.close()
      expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    } finally {
      await proxy.close()
    }
  })

  it('ends what is pending when it is closed', async () => {
    const { serving } = await host()
    const proxy = await stoppingProxy(Number(new URL(serving.url).port))
    try {
      const fleet = fleetOf([`http://127.0.0.1:${proxy.port}`], { reconnectTimeout: 60_000 })
      proxy.cut()
      const calls = [fleet.create(), fleet.create({ id: 'one' }), fleet.get('one'), fleet.list()].map(
        rejectionOf,
      )
      const closing = fleet.close()
      for (const call of calls) expect(await call).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      proxy.heal()
      await closing
    } finally {
      await proxy.close()
    }
  })

  it('gives a new client when the caller has destroyed one, and still deletes the sandbox', async () => {
    const { serving, sandbox } = await host()
    const fleet = fleetOf([serving.url], { ttl: 1000 })
    const { id, client } = await fleet.create({ labels: { team: 'a' } })
    await client.exec('x=5')
    await client.destroy()
    const again = await fleet.get(id)
    expect((await again?.client.exec('echo $x'))?.stdout).toBe('5\n')
    expect(again?.labels).toEqual({ team: 'a' })
    await again?.client.destroy()
    const listed = async () => (await sandbox.listSessions()).length
    await until(
      async () => ((await listed()) === 1 ? true : undefined),
      () => 'it does not expire',
    )
    for (const end of [() => fleet.delete('two'), () => fleet.close()]) {
      const next = await fleet.create({ id: 'two', ttl: 60_000 })
      await next.client.destroy()
      await end()
      expect(await listed()).toBe(1)
    }
  })

  it('lists no sessions whose names are not those of sandboxes', async () => {
    const { serving, sandbox } = await host()
    for (const id of [
      'sandbox.',
      'sandbox..x',
      'sandbox.UPPER',
      'sandbox.a_b',
      'sandbox.-',
      'sandbox',
      'sandbox.ok.inner',
    ])
      await sandbox.createSession({ id }).catch(() => {})
    const fleet = fleetOf([serving.url])
    const names = (await fleet.list()).map(({ id }) => id)
    expect(names).toEqual(['ok'])
  })

  it('reports a sandbox as lost whose host was restarted', async () => {
    const port = await freePort()
    const first = await host(port)
    const fleet = fleetOf([first.serving.url])
    const { client, id } = await fleet.create()
    await first.serving.close()
    await first.sandbox.destroy()
    running.length = 0
    await host(port)
    expect(await rejectionOf(client.exec('true'))).toMatchObject({
      code: 'SANDBOX_LOST',
      lost: { reason: 'replaced' },
    })
    expect(await fleet.get(id)).toBeNull()
  })

  it('uses the hosts that can be reached, and reports when none can', async () => {
    const { serving } = await host()
    const down = `http://127.0.0.1:${await freePort()}`
    const fleet = fleetOf([down, serving.url])
    expect((await (await fleet.create()).client.exec('echo ok')).stdout).toBe('ok\n')
    expect(await rejectionOf(fleetOf([down]).create())).toMatchObject({ code: 'CONNECTION_FAILED' })
  })

  it('waits for no host that is silent while another one answers', async () => {
    const [one, two] = [await host(), await host()]
    const proxy = await stoppingProxy(Number(new URL(one.serving.url).port))
    try {
      const fleet = fleetOf([`http://127.0.0.1:${proxy.port}`, two.serving.url], { requestTimeout: 60_000 })
      expect(await fleet.list()).toEqual([])
      proxy.cut()
      const { client } = await fleet.create()
      expect((await client.exec('echo ok')).stdout).toBe('ok\n')
      proxy.heal()
      await fleet.close()
    } finally {
      await proxy.close()
    }
  })
})
