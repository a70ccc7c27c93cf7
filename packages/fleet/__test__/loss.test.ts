/** A sandbox that is lost: its calls report what was lost, and no other sandbox answers them. */
import type { FleetSandbox, SandboxFleet } from '@nacre/fleet'
import type { SandboxClient } from 'nacre/client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { begun } from './cluster/begun.js'
import { Cluster } from './cluster/cluster.js'
import { CLAIMS } from './cluster/controller.js'

let cluster: Cluster
let fleet: SandboxFleet
let sandbox: FleetSandbox

beforeAll(async () => {
  cluster = await new Cluster({ pool: 2, limit: 500 }).start()
  fleet = cluster.fleet({ reconnectTimeout: 10_000 })
}, 60_000)

beforeEach(async () => {
  sandbox = await fleet.create()
})

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

/** Begins a command. The error is what it ends with. */
async function running(
  client: Pick<SandboxClient, 'exec'> = sandbox.client,
): Promise<{ error: Promise<Error> }> {
  return { error: rejectionOf((await begun(client, 'echo begun; sleep 60')).result) }
}

describe('SANDBOX_LOST', () => {
  it('ends a stream whose pod has ended, and says what was lost', async () => {
    const session = await sandbox.client.createSession({ id: 'other' })
    const process = await sandbox.client.startProcess('sleep 60', { processId: 'server' })
    const stream = rejectionOf(sandbox.client.execStream('sleep 60').result)
    const waiting = rejectionOf(process.waitForExit())
    const other = await running(session)
    await cluster.controller.killPod(sandbox.id)
    const lost = { sandbox: sandbox.id, reason: 'stopped', processes: ['server'], sessions: ['other'] }
    for (const error of [
      await stream,
      await other.error,
      await waiting,
      await rejectionOf(sandbox.client.exec('true')),
    ]) {
      expect(error).toMatchObject({ name: 'SandboxError', code: 'SANDBOX_LOST', lost })
      expect(error.message).toContain('1 process')
    }
    expect(sandbox.lost).toEqual(lost)
  })

  it('follows the deletion of a claim by others', async () => {
    const { error } = await running()
    cluster.api.store.delete(CLAIMS + sandbox.id)
    expect(await error).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'deleted' } })
  })

  it('is noticed after the watch was down', async () => {
    await cluster.api.stop()
    cluster.api.store.delete(CLAIMS + sandbox.id)
    cluster.api.store.compact()
    await cluster.api.start()
    await until(
      () => sandbox.lost ?? undefined,
      () => 'the loss is not noticed',
    )
    expect(sandbox.lost?.reason).toBe('deleted')
  })

  it('is what streams reject with although no watch reports the loss', async () => {
    await using quick = cluster.fleet({ reconnectTimeout: 500 })
    sandbox = await quick.create()
    const { client } = sandbox
    const process = await client.startProcess('echo begun; sleep 60')
    const log = process.output()
    expect((await log.next()).value).toMatchObject({ data: 'begun\n' })
    const changes = client.files.watch('.')
    const following = [log.next(), changes.next()].map((next) => rejectionOf(next))
    cluster.api.isSilent = true
    try {
      await cluster.controller.killPod(sandbox.id)
      for (const error of following)
        expect(await error).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'stopped' } })
    } finally {
      cluster.api.isSilent = false
      cluster.api.dropWatches()
    }
  })

  it('is what a download and an upload reject with although no watch reports the loss', async () => {
    await using quick = cluster.fleet({ reconnectTimeout: 500 })
    sandbox = await quick.create()
    const { files } = sandbox.client
    await sandbox.client.exec('head -c 50000000 /dev/zero > large')
    const download = files.readStream('large').getReader()
    await download.read()
    let isKilled = () => {}
    const killed = new Promise<void>((resolve) => {
      isKilled = resolve
    })
    const upload = rejectionOf(
      files.write(
        'new',
        (async function* () {
          yield 'begun'
          await killed
          yield 'more'
        })(),
      ),
    )
    cluster.api.isSilent = true
    try {
      await cluster.controller.killPod(sandbox.id)
      isKilled()
      const rest = async () => {
        while (!(await download.read()).done);
      }
      for (const error of [await rejectionOf(rest()), await upload, await rejectionOf(files.read('large'))])
        expect(error).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'stopped' } })
    } finally {
      cluster.api.isSilent = false
      cluster.api.dropWatches()
    }
  })

  it('is not what a download reports that a partition has stopped', async () => {
    await using direct = cluster.fleet({ direct: true, reconnectTimeout: 1000 })
    sandbox = await direct.create()
    const { network } = cluster.controller.podOf(sandbox.id)
    await sandbox.client.exec('head -c 50000000 /dev/zero > large')
    if (!network.link(false)) return expect(cluster.pods).toMatchObject({ hasNamespaces: false })
    network.link(true)
    await holds(async () => (await sandbox.client.exec('true')).success)
    const download = sandbox.client.files.readStream('large').getReader()
    await download.read()
    network.link(false)
    const rest = async () => {
      while (!(await download.read()).done);
    }
    expect(await rejectionOf(rest())).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(sandbox.lost).toBeNull()
    network.link(true)
  })

  it('is not what input of a terminal reports that a partition has stopped', async () => {
    await using direct = cluster.fleet({ direct: true, reconnectTimeout: 1000 })
    sandbox = await direct.create()
    const { network } = cluster.controller.podOf(sandbox.id)
    if (!network.link(false)) return expect(cluster.pods).toMatchObject({ hasNamespaces: false })
    network.link(true)
    await holds(async () => (await sandbox.client.exec('true')).success)
    const terminal = await sandbox.client.startProcess('cat', { pty: { cols: 80, rows: 24 } })
    await terminal.write('one\n')
    network.link(false)
    expect(await rejectionOf(terminal.write('two\n'))).toMatchObject({ code: 'CONNECTION_FAILED' })
    // Nor does a loss wait for the end of the WebSocket.
    network.link(true)
    await holds(async () => (await sandbox.client.exec('true')).success)
    await terminal.write('three\n')
    network.link(false)
    const waiting = rejectionOf(terminal.write('four\n'))
    cluster.api.store.delete(CLAIMS + sandbox.id)
    expect(await waiting).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'deleted' } })
  })

  it('is what calls get when another pod has the address', async () => {
    const { ip, secret } = cluster.controller.podOf(sandbox.id)
    const { error } = await running()
    const next = await cluster.controller.replacePod(sandbox.id)
    expect(next.ip).toBe(ip)
    expect(next.secret).not.toBe(secret)
    const later = await rejectionOf(sandbox.client.exec('touch /tmp/never'))
    for (const found of [await error, later])
      expect(found).toMatchObject({ code: 'SANDBOX_LOST', lost: { reason: 'replaced' } })
    // Nor does another program get the new pod under the old id.
    await using other = cluster.fleet()
    expect(await rejectionOf(other.get(sandbox.id))).toMatchObject({ code: 'SANDBOX_LOST' })
    expect(await rejectionOf(other.create({ id: sandbox.id }))).toMatchObject({ code: 'SANDBOX_LOST' })
    await other.delete(sandbox.id)
    await using fresh = await other.create({ id: sandbox.id })
    expect((await fresh.client.exec('echo ok')).stdout).toBe('ok\n')
  })

  it('is not what a partition is: calls continue after it, and fail as unreachable when it lasts', async () => {
    await using quick = cluster.fleet({ reconnectTimeout: 700 })
    sandbox = await quick.create()
    const { network } = cluster.controller.podOf(sandbox.id)
    if (!network.link(false)) {
      // Without network namespaces, no link can be cut: the pod is stopped as a whole instead.
      return expect(cluster.pods).toMatchObject({ hasNamespaces: false })
    }
    network.link(true)
    await holds(async () => (await sandbox.client.exec('true')).success)
    const { result } = await begun(sandbox.client, 'echo begun; sleep 3; echo done')
    network.link(false)
    const cuts = cluster.router.cuts()
    await holds(() => cluster.router.cuts() > cuts)
    network.link(true)
    expect((await result).stdout).toBe('begun\ndone\n')
    // A call that waits, straight to the pod, notices the partition by itself.
    await using direct = cluster.fleet({ direct: true, reconnectTimeout: 900 })
    const same = await direct.get(sandbox.id)
    const { error } = await running(same?.client)
    network.link(false)
    expect(await error).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(await rejectionOf(sandbox.client.exec('true'))).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(sandbox.lost).toBeNull()
    network.link(true)
    await holds(async () => (await sandbox.client.exec('echo ok')).stdout)
  })
})
