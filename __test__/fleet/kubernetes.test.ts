/** Sandboxes on Kubernetes: claims, their time to live, and what a fleet does when the API server fails. */
import { SandboxError } from 'nacre/fleet'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Cluster } from '../helpers/cluster/cluster.js'
import { CLAIMS } from '../helpers/cluster/controller.js'

let cluster: Cluster

beforeAll(async () => {
  cluster = await new Cluster({ pool: 2 }).start()
}, 60_000)

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

describe('create', () => {
  it('gives a sandbox whose commands run in the pod of its claim', async () => {
    const fleet = cluster.fleet()
    const sandbox = await fleet.create({ labels: { team: 'a' } })
    const { stdout } = await sandbox.client.exec('echo $SECRET')
    expect(stdout).toBe(`${cluster.controller.podOf(sandbox.id).secret}\n`)
    expect(cluster.api.store.get(CLAIMS + sandbox.id).metadata.labels.team).toBe('a')
    await sandbox.delete()
    expect(cluster.claims()).toEqual([])
    await fleet.close()
  })
})
