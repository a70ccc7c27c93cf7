/**
 * The cost of a fleet: calls through the router, claims, writes to the API server, watches, and the router's memory.
 *
 * The API server, the controller and the router run in this process. So the counts apply to any cluster, and the times are
 * upper bounds.
 */
import { SandboxClient } from 'nacre/client'
import { KubernetesApi } from '../../packages/fleet/dist/kubernetes/api.js'
import { MANAGED_BY } from '../../packages/fleet/dist/kubernetes/claim.js'
import { ClaimWatch } from '../../packages/fleet/dist/kubernetes/claim-watch.js'
import { median } from '../stats.mjs'
import { ApiServer, Cluster, ProcessPods } from './cluster.mjs'

/** @typedef {import('../../packages/fleet/__test__/cluster/cluster.js').Cluster} Cluster */

/** Rows of a table: the quantity, and its value. */
export async function measure({ quick }) {
  const cluster = await new Cluster({ pods: new ProcessPods(), pool: 3, limit: 180_000 }).start()
  try {
    return [
      ...(await calls(cluster, quick ? 100 : 2000)),
      ...(await claims(cluster, quick ? 5 : 100)),
      ...(await watches(quick ? 500 : 10_000)),
      ...(await pending(cluster, quick ? 50 : 1000)),
    ]
  } finally {
    await cluster[Symbol.asyncDispose]()
  }
}

/**
 * Measures `exec` by a client of the pod and by the fleet through the router, alternating.
 *
 * @param {Cluster} cluster
 */
async function calls(cluster, most) {
  const fleet = cluster.fleet()
  const unrouted = cluster.fleet({ direct: true })
  const sandbox = await fleet.create()
  const same = await unrouted.get(sandbox.id)
  const { ip } = cluster.controller.podOf(sandbox.id)
  const direct = new SandboxClient({ url: `http://${ip}:3000`, token: 'a-token-of-the-tests' })
  const clients = { direct, unrouted: same.client, routed: sandbox.client }
  const times = { direct: [], unrouted: [], routed: [] }
  for (let count = 0; count < most; count++) {
    for (const [name, client] of Object.entries(clients)) {
      const begin = performance.now()
      await client.exec('true')
      if (count >= most / 10) times[name].push(performance.now() - begin)
    }
  }
  await sandbox.destroy()
  const base = median(times.direct)
  const show = (time) => `${time.toFixed(2)} ms (+${(time - base).toFixed(2)} ms)`
  await unrouted.close()
  await fleet.close()
  return [
    ['exec by a direct client, p50', `${base.toFixed(2)} ms`],
    ["exec by a fleet's client, p50", show(median(times.unrouted))],
    ["exec by a fleet's client through the router, p50", show(median(times.routed))],
  ]
}

/**
 * Measures the time from `create` to the first answer with a warm pod, and the API requests per sandbox.
 *
 * @param {Cluster} cluster
 */
async function claims(cluster, most) {
  const fleet = cluster.fleet()
  const before = { ...cluster.api.counts }
  const times = []
  for (let count = 0; count < most; count++) {
    await cluster.controller.fill()
    const begin = performance.now()
    const sandbox = await fleet.create()
    await sandbox.client.exec('true')
    times.push(performance.now() - begin)
    await sandbox.destroy()
  }
  const each = Object.entries(cluster.api.counts).map(
    ([kind, count]) => `${kind} ${((count - (before[kind] ?? 0)) / most).toFixed(2)}`,
  )
  await fleet.close()
  return [
    ['claim to first answer, warm, p50', `${median(times).toFixed(1)} ms`],
    ['requests and events for each sandbox', each.join(', ')],
  ]
}

/** Measures the watches of several programs while claims are created and become ready. There are no pods. */
async function watches(simulated) {
  const rows = []
  for (const programs of [1, 10]) {
    const server = new ApiServer()
    await server.start()
    const kubeConfig = server.kubeConfig()
    const options = { namespace: 'agents', kubeConfig, timeout: 30_000 }
    const all = Array.from({ length: programs }, () => new ClaimWatch(new KubernetesApi(options)))
    for (const watch of all) watch.follow('none', { changed() {}, refused() {} })
    while (server.watches < programs) await new Promise((resolve) => setTimeout(resolve, 5))
    const cpu = process.cpuUsage()
    for (let count = 0; count < simulated; count++) {
      const name = `claim-${count}`
      const metadata = { name, namespace: 'agents', labels: MANAGED_BY }
      const key = `sandboxclaims/agents/${name}`
      server.store.create(key, { metadata, spec: { warmPoolRef: { name: 'pool' } } })
      server.store.patch(key, { status: { sandbox: { name, podIPs: ['10.0.0.1'] } } })
      if (count % 50 === 0) await new Promise(setImmediate)
    }
    const last = `claim-${simulated - 1}`
    while (!all.every((watch) => watch.find(last)?.status))
      await new Promise((resolve) => setTimeout(resolve, 5))
    const { user, system } = process.cpuUsage(cpu)
    const seconds = (user + system) / 1e6
    const events = server.counts.EVENT ?? 0
    rows.push([
      `${simulated} claims, ${programs} watching`,
      `${events} events, ${((seconds / events) * 1e6).toFixed(0)} µs of processor time for each, both ends`,
    ])
    await Promise.all(all.map((watch) => watch.close()))
    await server.stop()
  }
  return rows
}

/**
 * Measures the memory of this process, which contains the router and the clients, with pending requests.
 *
 * @param {Cluster} cluster
 */
async function pending(cluster, most) {
  const fleet = cluster.fleet()
  const sandbox = await fleet.create()
  const sessions = 10
  for (let count = 0; count < sessions; count++) await sandbox.client.createSession({ id: `s${count}` })
  const process_ = await sandbox.client.startProcess('sleep 600')
  const before = heap()
  const stop = new AbortController()
  const waits = Array.from({ length: most }, () =>
    process_.waitForExit({ signal: stop.signal }).catch(() => {}),
  )
  await new Promise((resolve) => setTimeout(resolve, 2000))
  const after = heap()
  stop.abort()
  await Promise.all(waits)
  await sandbox.destroy()
  await fleet.close()
  const each = (after - before) / most / 1024
  return [
    [`${most} pending calls through the router`, `${each.toFixed(0)} KiB for each, with the client's part`],
  ]
}

/** Bytes in use after a collection. */
function heap() {
  globalThis.gc?.()
  const { heapUsed, external } = process.memoryUsage()
  return heapUsed + external
}
