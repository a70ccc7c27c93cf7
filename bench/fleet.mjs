/**
 * What a fleet costs: calls through the router, claims, writes to the API server, watches, and the memory of the router.
 *
 *   node bench/fleet.mjs [--quick]
 *
 * The API server, the controller and the router are those of the tests, which are in this process. The pods are real. So the
 * counts are those of any cluster, and the times are upper bounds. Needs the build, and no other load on the machine.
 */
import { mkdirSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { SandboxClient } from 'nacre/client'
import { KubernetesApi } from '../dist/fleet/kubernetes/api.js'
import { MANAGED_BY } from '../dist/fleet/kubernetes/claim.js'
import { ClaimWatch } from '../dist/fleet/kubernetes/claim-watch.js'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const isQuick = process.argv.includes('--quick')
const CALLS = isQuick ? 100 : 2000
const CLAIMS = isQuick ? 5 : 100
const SIMULATED = isQuick ? 500 : 10_000
const PENDING = isQuick ? 50 : 1000

const { ApiServer, Cluster, ProcessPods } = await helpers()
const cluster = await new Cluster({ pods: new ProcessPods(), pool: 3, limit: 180_000 }).start()
await calls()
await claims()
await watches()
await pending()
await cluster[Symbol.asyncDispose]()

/** The helpers of the tests, compiled. */
async function helpers() {
  const folder = path.join(root, '__test__/helpers/cluster')
  const outfile = path.join(root, 'target/bench/cluster.mjs')
  mkdirSync(path.dirname(outfile), { recursive: true })
  const contents = ['cluster', 'api-server', 'pods'].map((name) => `export * from './${name}.js'`).join('\n')
  await build({
    ...{ stdin: { contents, resolveDir: folder, loader: 'ts' }, outfile, bundle: true, logLevel: 'error' },
    ...{ platform: 'node', format: 'esm', packages: 'external' },
    banner: { js: `const __dirname = ${JSON.stringify(folder)}` },
  })
  try {
    return await import(outfile)
  } finally {
    rmSync(outfile)
  }
}

/** `exec` by a client of the pod, and by the fleet through the router, in turns. */
async function calls() {
  const fleet = cluster.fleet()
  const unrouted = cluster.fleet({ direct: true })
  const sandbox = await fleet.create()
  const same = await unrouted.get(sandbox.id)
  const { ip } = cluster.controller.podOf(sandbox.id)
  const direct = new SandboxClient({ url: `http://${ip}:3000`, token: 'a-token-of-the-tests' })
  const clients = { direct, unrouted: same.client, routed: sandbox.client }
  const times = { direct: [], unrouted: [], routed: [] }
  for (let count = 0; count < CALLS; count++) {
    for (const [name, client] of Object.entries(clients)) {
      const begin = performance.now()
      await client.exec('true')
      if (count >= CALLS / 10) times[name].push(performance.now() - begin)
    }
  }
  await sandbox.delete()
  const base = median(times.direct)
  const show = (time) => `${time.toFixed(2)} ms (+${(time - base).toFixed(2)} ms)`
  print('exec by a direct client, p50', `${base.toFixed(2)} ms`)
  print('exec through fleet client, p50', show(median(times.unrouted)))
  print('exec through fleet client and router, p50', show(median(times.routed)))
  await unrouted.close()
  await fleet.close()
}

/** From `create` to the first answer, with a warm pod; and requests to the API server for each sandbox. */
async function claims() {
  const fleet = cluster.fleet()
  const before = { ...cluster.api.counts }
  const times = []
  for (let count = 0; count < CLAIMS; count++) {
    await cluster.controller.fill()
    const begin = performance.now()
    const sandbox = await fleet.create()
    await sandbox.client.exec('true')
    times.push(performance.now() - begin)
    await sandbox.delete()
  }
  print('claim to first answer, warm, p50', `${median(times).toFixed(1)} ms`)
  const each = Object.entries(cluster.api.counts).map(
    ([kind, count]) => `${kind} ${((count - (before[kind] ?? 0)) / CLAIMS).toFixed(2)}`,
  )
  print('requests and events for each sandbox', each.join(', '))
  await fleet.close()
}

/** Watches of several programs, while claims are created and become ready. There are no pods. */
async function watches() {
  for (const programs of [1, 10]) {
    const server = new ApiServer()
    await server.start()
    const kubeConfig = server.kubeConfig()
    const options = { namespace: 'agents', kubeConfig, timeout: 30_000 }
    const all = Array.from({ length: programs }, () => new ClaimWatch(new KubernetesApi(options)))
    for (const watch of all) watch.follow('none', () => {})
    while (server.watches < programs) await new Promise((resolve) => setTimeout(resolve, 5))
    const cpu = process.cpuUsage()
    for (let count = 0; count < SIMULATED; count++) {
      const name = `claim-${count}`
      const metadata = { name, namespace: 'agents', labels: MANAGED_BY }
      const key = `sandboxclaims/agents/${name}`
      server.store.create(key, { metadata, spec: { warmPoolRef: { name: 'pool' } } })
      server.store.patch(key, { status: { sandbox: { name, podIPs: ['10.0.0.1'] } } })
      if (count % 50 === 0) await new Promise(setImmediate)
    }
    const last = `claim-${SIMULATED - 1}`
    while (!all.every((watch) => watch.find(last)?.status))
      await new Promise((resolve) => setTimeout(resolve, 5))
    const { user, system } = process.cpuUsage(cpu)
    const seconds = (user + system) / 1e6
    const events = server.counts.EVENT ?? 0
    print(
      `${SIMULATED} claims, ${programs} watching`,
      `${events} events, ${((seconds / events) * 1e6).toFixed(0)} µs of processor time for each, both ends`,
    )
    await Promise.all(all.map((watch) => watch.close()))
    await server.stop()
  }
}

/** Memory of this process, which has the router and the clients, with pending requests. */
async function pending() {
  const fleet = cluster.fleet()
  const sandbox = await fleet.create()
  const sessions = 10
  for (let count = 0; count < sessions; count++) await sandbox.client.createSession({ id: `s${count}` })
  const process_ = await sandbox.client.startProcess('sleep 600')
  globalThis.gc?.()
  const before = process.memoryUsage().rss
  const stop = new AbortController()
  const waits = Array.from({ length: PENDING }, () => process_.wait({ signal: stop.signal }).catch(() => {}))
  await new Promise((resolve) => setTimeout(resolve, 2000))
  const after = process.memoryUsage().rss
  print(
    `${PENDING} pending calls through the router`,
    `${((after - before) / PENDING / 1024).toFixed(0)} KiB for each, with the client's part`,
  )
  stop.abort()
  await Promise.all(waits)
  await sandbox.delete()
  await fleet.close()
}

function median(times) {
  return [...times].sort((a, b) => a - b)[Math.floor(times.length / 2)]
}

function print(what, value) {
  console.log(`${what.padEnd(48)} ${value}`)
}
