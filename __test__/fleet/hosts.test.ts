/** Sandboxes on a list of hosts: sessions with the interface of sandboxes. */
import { Sandbox } from 'nacre'
import { SandboxFleet } from 'nacre/fleet'
import { type Serving, serve } from 'nacre/server'
import { afterEach, describe, expect, it } from 'vitest'
import { freePort } from '../helpers/serving.js'
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
      4000,
    )
    expect(idle.lost?.reason).toBe('expired')
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    expect(await rejectionOf(idle.client.exec('true'))).toMatchObject({ code: 'SANDBOX_LOST' })
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
})
