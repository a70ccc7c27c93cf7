/**
 * A fleet under load and faults: 200 clients of 10 pods, each pod in a network namespace. At first nothing fails. Then
 * links are cut, connections broken, watches ended and expired, the API server restarted, and pods killed while their
 * clients read streams. Every answer is checked: the pod's secret, and a counter in the shell.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { quantile } from '../stats.mjs'
import { Cluster, ProcessPods } from './cluster.mjs'

const PODS = 10
const PROGRAMS = 20
/** Milliseconds between two calls of a client, up to twice this. */
const PAUSE = 1000
const STREAM_LINES = 500

/** Rows of a table: the quantity, and its value. */
export async function measure({ quick }) {
  const pods = new ProcessPods()
  const cluster = await new Cluster({ pods, pool: PODS, limit: 5000, dialTimeout: 1000 }).start()
  try {
    const load = await new Load(cluster).start()
    const calm = await load.phase(quick ? 3000 : 20_000)
    const faults = startFaults(cluster, load)
    const rough = await load.phase(quick ? 8000 : 60_000).finally(faults.end)
    const after = await load.phase(quick ? 2000 : 5000)
    await load.end()
    if (cluster.claims().length > 0) throw new Error(`left: ${cluster.claims()}`)
    const isReal = pods.hasNamespaces ? 'in network namespaces' : 'on loopback, without partitions'
    return [
      ['setting', `${PODS} pods ${isReal}, ${PODS * PROGRAMS} clients in ${PROGRAMS} fleet objects`],
      ['calls without faults', show(calm)],
      ['faults', faults.summary()],
      ['calls under faults', show(rough)],
      ['calls afterwards', show(after)],
      ['calls that reported SANDBOX_LOST', `${load.lost}, all on pods that had been killed`],
      ['answers of another pod, repeated or missing commands, other errors', `${load.wrong.length}`],
    ]
  } finally {
    await cluster[Symbol.asyncDispose]()
  }
}

class Load {
  lost = 0
  wrong = []
  #cluster
  #fleets = []
  #slots = []
  #clients = []
  #times = []
  #isOver = false

  constructor(cluster) {
    this.#cluster = cluster
  }

  async start() {
    const options = { reconnectTimeout: 20_000, requestTimeout: 30_000, createTimeout: 60_000 }
    this.#fleets = Array.from({ length: PROGRAMS }, () => this.#cluster.fleet(options))
    for (let index = 0; index < PODS; index++)
      this.#slots.push({ current: this.#create(), killed: new Set() })
    await Promise.all(this.#slots.map(({ current }) => current))
    this.#clients = this.#fleets.flatMap((fleet) => this.#slots.map((slot) => this.#client(fleet, slot)))
    return this
  }

  /** Collects the times of calls in the next milliseconds. */
  async phase(duration) {
    this.#times = []
    await sleep(duration)
    if (this.wrong.length > 0) throw this.wrong[0]
    return { times: this.#times, seconds: duration / 1000 }
  }

  /** Kills the pod of one sandbox, and creates another for its clients. */
  async kill(index) {
    const slot = this.#slots[index % PODS]
    const { id } = await slot.current
    slot.killed.add(id)
    slot.current = (async () => {
      await this.#cluster.controller.killPod(id)
      await this.#fleets[0].delete(id)
      return this.#create()
    })()
    await slot.current
  }

  async network(index) {
    return this.#cluster.controller.podOf((await this.#slots[index % PODS].current).id).network
  }

  async end() {
    this.#isOver = true
    await Promise.all(this.#clients)
    for (const { current } of this.#slots) await this.#fleets[0].delete((await current).id)
    await Promise.all(this.#fleets.map((fleet) => fleet.close()))
    if (this.wrong.length > 0) throw this.wrong[0]
  }

  async #create() {
    const { id } = await this.#fleets[0].create({ ttl: 600_000 })
    return { id, secret: this.#cluster.controller.podOf(id).secret }
  }

  /** Runs one client: takes a sandbox and uses it until it is lost or the load ends. */
  async #client(fleet, slot) {
    while (!this.#isOver) {
      const { id, secret } = await slot.current
      try {
        await this.#use(await fleet.get(id), secret)
      } catch (error) {
        if (error.code === 'SANDBOX_LOST' && slot.killed.has(id)) this.lost++
        else if (!(error instanceof NotThere && slot.killed.has(id))) {
          this.wrong.push(error)
          return
        }
      }
    }
  }

  async #use(sandbox, secret) {
    if (sandbox === null) throw new NotThere('the sandbox was deleted before this client had it')
    const session = await sandbox.client.createSession()
    for (let count = 1; !this.#isOver; count++) {
      const begun = performance.now()
      const isStream = count % 10 === 0
      const command = isStream ? `seq ${STREAM_LINES}; ` : ''
      let text = ''
      const stream = session.execStream(`n=$((n + 1)); ${command}echo $SECRET $n`)
      for await (const event of stream) if (event.type === 'stdout') text += event.data
      await stream.result
      this.#times.push(performance.now() - begun)
      const lines = isStream ? Array.from({ length: STREAM_LINES }, (_, index) => `${index + 1}\n`) : []
      const expected = `${lines.join('')}${secret} ${count}\n`
      if (text !== expected) throw new Error(`expected ${expected.slice(-60)}, got ${text.slice(-60)}`)
      await sleep(Math.random() * 2 * PAUSE)
    }
  }
}

class NotThere extends Error {}

/** Injects a fault twice per second, until the end. */
function startFaults(cluster, load) {
  const counts = {}
  const counted = (name) => {
    counts[name] = (counts[name] ?? 0) + 1
  }
  /** @type {[string, (round: number) => unknown][]} */
  const faults = [
    ['partitions of 0.2 to 1.2 s', (round) => partition(load, round)],
    ['broken connections of all clients', () => cluster.router.break()],
    ['restarts of the API server', () => restart(cluster.api)],
    ['ended watches', () => cluster.api.dropWatches()],
    ['expired watches', () => cluster.api.store.compact()],
    ['killed pods', (round) => load.kill(round)],
  ]
  let isOver = false
  const running = (async () => {
    for (let round = 0; !isOver; round++) {
      const [name, fault] = faults[round % faults.length]
      if ((await fault(round)) !== false) counted(name)
      await sleep(500)
    }
  })()
  return {
    end: () => {
      isOver = true
      return running
    },
    summary: () =>
      Object.entries(counts)
        .map(([name, count]) => `${count} ${name}`)
        .join(', '),
  }
}

async function partition(load, round) {
  const network = await load.network(round)
  if (!network.link(false)) return false
  await sleep(200 + Math.random() * 1000)
  return network.link(true)
}

async function restart(api) {
  await api.stop()
  await sleep(300)
  await api.start()
}

function show({ times, seconds }) {
  const at = (part) => `${quantile(times, part).toFixed(1)} ms`
  const longest = (Math.max(...times) / 1000).toFixed(1)
  return `${times.length} (${Math.round(times.length / seconds)}/s), p50 ${at(0.5)}, p99 ${at(0.99)}, longest ${longest} s`
}
