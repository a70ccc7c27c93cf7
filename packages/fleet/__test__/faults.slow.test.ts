/**
 * A thousand sandboxes are created, used and deleted while the API server, its watches, the router and the pods fail at random.
 * None is lost without notice, none is left, and no call is answered by another sandbox or performed twice.
 */
import { type FleetSandbox, SandboxError, type SandboxFleet } from '@nacre/fleet'
import { expect, it } from 'vitest'
import { type Random, withRandom } from '../../../__test__/helpers/random.js'
import { until } from '../../../__test__/helpers/until.js'
import { Cluster } from './cluster/cluster.js'
import { SharedPods } from './cluster/pods.js'

const CYCLES = 1000
const AT_ONCE = 8

interface Counts {
  used: number
  aborted: number
  lost: number
}

it('survives random faults', () => withRandom(run), 1_200_000)

async function run(random: Random): Promise<void> {
  const begun = performance.now()
  await using cluster = await new Cluster({ pods: new SharedPods(), pool: 6, limit: 400 }).start()
  const options = { reconnectTimeout: 20_000, requestTimeout: 30_000, createTimeout: 60_000 }
  const fleets = [cluster.fleet(options), cluster.fleet(options)]
  const chance = (probability: number) => random.next() < probability
  cluster.api.fault = () => {
    if (chance(0.03)) return 'lose-reply'
    if (chance(0.02)) return 'break'
    return chance(0.04) ? ([429, 500, 503][random.below(3)] as number) : undefined
  }
  const counts: Counts = { used: 0, aborted: 0, lost: 0 }
  let left = CYCLES
  const work = async () => {
    while (left-- > 0) {
      const fleet = fleets[random.below(2)] as SandboxFleet
      await cycle(cluster, fleet, random, counts)
    }
  }
  const breaker = startFaults(cluster, random)
  await Promise.all(Array.from({ length: AT_ONCE }, work))
  await breaker()
  cluster.api.fault = () => undefined
  await Promise.all(fleets.map((fleet) => fleet.close()))
  await until(
    () => (cluster.claims().length === 0 && cluster.controller.running.size === 0) || undefined,
    () => `left: ${cluster.claims()}, pods of ${[...cluster.controller.running.keys()]}`,
    20_000,
  )
  expect(counts.used + counts.aborted + counts.lost).toBe(CYCLES)
  expect(counts.used).toBeGreaterThan(CYCLES / 2)
  expect(counts.lost).toBeGreaterThan(0)
  expect(counts.aborted).toBeGreaterThan(0)
  const seconds = Math.round((performance.now() - begun) / 1000)
  console.log(`${seconds} s: ${JSON.stringify(counts)}, requests ${JSON.stringify(cluster.api.counts)}`)
}

/** One sandbox from its creation to its deletion. */
async function cycle(cluster: Cluster, fleet: SandboxFleet, random: Random, counts: Counts): Promise<void> {
  const abort = new AbortController()
  const isAborted = random.next() < 0.05
  const timer = isAborted ? setTimeout(() => abort.abort(), random.below(60)) : undefined
  let sandbox: FleetSandbox
  try {
    sandbox = await fleet.create({ signal: abort.signal, ttl: 120_000 })
  } catch (error) {
    expect(error).toMatchObject({ code: 'ABORT_ERR' })
    expect(isAborted).toBe(true)
    counts.aborted++
    return
  } finally {
    clearTimeout(timer)
  }
  const { secret } = cluster.controller.podOf(sandbox.id)
  const end = random.next() < 0.08 ? random.below(3) : undefined
  const uses = 2 + random.below(3)
  const ending = end === undefined ? undefined : fail(cluster, sandbox.id, end, random.below(40))
  let isLost = false
  try {
    for (let number = 1; number <= uses; number++) {
      const pause = random.next() < 0.02 ? 'sleep 0.6; ' : ''
      const { stdout } = await sandbox.client.exec(`${pause}n=$((n + 1)); echo $SECRET $n`)
      expect(stdout).toBe(`${secret} ${number}\n`)
    }
  } catch (error) {
    if (!(error instanceof SandboxError) || error.code !== 'SANDBOX_LOST') throw error
    expect(end).toBeDefined()
    isLost = true
  }
  await ending
  if (random.next() < 0.5) await sandbox.destroy()
  else await fleet.delete(sandbox.id)
  expect(cluster.claims()).not.toContain(sandbox.id)
  if (isLost) counts.lost++
  else counts.used++
}

/** Ends the pod of a sandbox: by its claim, by its end, or by another pod at its address. */
async function fail(cluster: Cluster, id: string, kind: number, delay: number): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, delay))
  if (kind === 0) cluster.api.store.delete(`sandboxclaims/agents/${id}`)
  else if (kind === 1) await cluster.controller.killPod(id)
  else await cluster.controller.replacePod(id)
}

/** Breaks what all sandboxes share, until the returned function is called. */
function startFaults(cluster: Cluster, random: Random): () => Promise<void> {
  let isOver = false
  const faults = [
    async () => cluster.api.dropWatches(),
    async () => cluster.api.store.compact(),
    async () => cluster.router.break(),
    async () => {
      await cluster.api.stop()
      await new Promise((resolve) => setTimeout(resolve, random.below(300)))
      await cluster.api.start()
    },
  ]
  const running = (async () => {
    while (!isOver) {
      await new Promise((resolve) => setTimeout(resolve, 200 + random.below(600)))
      await faults[random.below(faults.length)]?.()
    }
  })()
  return async () => {
    isOver = true
    await running
  }
}
