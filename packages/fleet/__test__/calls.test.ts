/** Calls through the router: they survive its time limit and broken connections, and are performed once. */
import { randomUUID } from 'node:crypto'
import type { FleetSandbox, SandboxFleet } from '@nacre/fleet'
import { SandboxClient } from 'nacre/client'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { begun } from './cluster/begun.js'
import { Cluster } from './cluster/cluster.js'
import { PORT, TOKEN } from './cluster/pods.js'

let cluster: Cluster
let fleet: SandboxFleet
let sandbox: FleetSandbox
let client: SandboxClient

beforeAll(async () => {
  cluster = await new Cluster({ pool: 1, limit: 250 }).start()
  fleet = cluster.fleet()
  sandbox = await fleet.create()
  client = sandbox.client
}, 60_000)

let cutsBefore = 0
beforeEach(() => {
  cutsBefore = cluster.router.cuts()
})

afterAll(() => cluster[Symbol.asyncDispose](), 60_000)

const cuts = () => cluster.router.cuts() - cutsBefore

/** Shell text that waits until the router has cut some requests, which `release` reports to it. */
function gate(least: number): { wait: string; release: Promise<unknown> } {
  const file = randomUUID()
  const isReached = () => cuts() >= least || undefined
  const release = until(isReached, () => `only ${cuts()} cuts`).then(() => client.files.write(file, ''))
  return { wait: `until [ -e ${file} ]; do sleep 0.02; done`, release }
}

it('the client of a sandbox is a SandboxClient', () => {
  expect(client).toBeInstanceOf(SandboxClient)
})

describe('a call that takes longer than the router allows', () => {
  it('runs a command once', async () => {
    const file = randomUUID()
    const { wait, release } = gate(3)
    const { stdout } = await client.exec(`echo run >> ${file}; ${wait}; cat ${file}`)
    await release
    expect(stdout).toBe('run\n')
    expect((await client.exec(`cat ${file}`)).stdout).toBe('run\n')
  })

  it('gives the error of a command that fails late', async () => {
    const error = await rejectionOf(client.exec('sleep 0.4; echo no >&2; exit 3', { check: true }))
    expect(error).toMatchObject({ code: 'COMMAND_FAILED', result: { exitCode: 3, stderr: 'no\n' } })
  })

  it('streams all output of a command once', async () => {
    const chunks: string[] = []
    const { wait, release } = gate(2)
    const stream = client.execStream(`for i in $(seq 1 16); do echo $i; sleep 0.05; done; ${wait}; echo 17`)
    for await (const event of stream) if (event.type === 'stdout') chunks.push(event.data)
    expect(chunks.join('')).toBe(Array.from({ length: 17 }, (_, index) => `${index + 1}\n`).join(''))
    expect((await stream.result).success).toBe(true)
    await release
  })

  it('streams megabytes byte for byte to a slow reader', async () => {
    const size = 4 * 1024 * 1024
    const stream = client.execStream(`head -c ${size} /dev/zero | tr '\\0' x | nl -w 8; sleep 0.3; echo end`)
    let length = 0
    let tail = ''
    for await (const event of stream) {
      if (event.type !== 'stdout') continue
      length += event.data.length
      tail = event.data
      if (length % 4 === 0) await new Promise((resolve) => setTimeout(resolve, 20))
    }
    expect(tail.endsWith('end\n')).toBe(true)
    // nl adds a number, a tab and a newline.
    expect(length).toBe(size + 10 + 4)
  })

  it('gives input to a command, and calls the callbacks once', async () => {
    const lines: string[] = []
    async function* input() {
      for (let number = 0; number < 6; number++) {
        yield `${number}\n`
        await until(
          () => lines.length > number || undefined,
          () => `only ${lines}`,
        )
      }
    }
    const result = await client.exec('while read -r x; do echo got $x; done', {
      input: input(),
      onLine: (line) => lines.push(line),
    })
    expect(result.stdout).toBe('got 0\ngot 1\ngot 2\ngot 3\ngot 4\ngot 5\n')
    expect(lines).toEqual(['got 0', 'got 1', 'got 2', 'got 3', 'got 4', 'got 5'])
  })

  it('waits for a process, for its log, and follows its output', async () => {
    const { wait, release } = gate(3)
    const process = await client.startProcess(
      `for i in 1 2 3; do echo $i; sleep 0.3; done; ${wait}; echo ready; exit 4`,
    )
    const output: string[] = []
    const reading = (async () => {
      for await (const event of process.output()) if (event.type === 'stdout') output.push(event.data)
    })()
    expect((await process.waitForLog('ready')).line).toBe('ready')
    expect(await process.waitForExit()).toMatchObject({ exitCode: 4 })
    await reading
    await release
    expect(output.join('')).toBe('1\n2\n3\nready\n')
  })

  it('keeps the time limit of a wait', async () => {
    const process = await client.startProcess('sleep 60')
    const begin = performance.now()
    expect(await rejectionOf(process.waitForExit({ timeout: 700 }))).toMatchObject({
      code: 'PROCESS_WAIT_TIMEOUT',
    })
    const took = performance.now() - begin
    expect(took).toBeGreaterThan(650)
    await process.kill()
  })

  it('starts a service once', async () => {
    const file = randomUUID()
    const service = await client.startService(`echo start >> ${file}; sleep 0.6; echo up; sleep 60`, {
      healthCheck: { log: 'up', timeout: 10_000 },
    })
    expect((await client.exec(`cat ${file}`)).stdout).toBe('start\n')
    await service.kill()
  })

  it('follows a durable job', async () => {
    const job = await client.jobs.start({ command: 'for i in 1 2 3; do echo $i; sleep 0.2; done' })
    let text = ''
    for await (const read of client.jobs.follow(job.jobId)) text += read.raw
    expect(text).toBe('1\n2\n3\n')
  })

  it('watches files, and reports that changes may be missing', async () => {
    await client.exec('mkdir -p watched')
    const abort = new AbortController()
    const types: string[] = []
    const watching = (async () => {
      for await (const { type } of client.files.watch('watched', { signal: abort.signal })) types.push(type)
    })().catch(() => {})
    await until(
      () => types.includes('overflow') || undefined,
      () => `only ${types}`,
    )
    abort.abort()
    await watching
  })
})

describe('a connection that breaks', () => {
  it('lets a command run once, and gives its result', async () => {
    const file = randomUUID()
    const go = randomUUID()
    let seen = cluster.router.opened()
    const running = client.exec(`echo run >> ${file}; until [ -e ${go} ]; do sleep 0.02; done; cat ${file}`)
    for (let round = 0; round < 4; round++) {
      await holds(() => cluster.router.opened() > seen)
      seen = cluster.router.opened()
      cluster.router.break()
    }
    await client.files.write(go, '')
    expect((await running).stdout).toBe('run\n')
  })

  it('does not keep an abort from ending a command', async () => {
    const abort = new AbortController()
    const { line: pid, result } = await begun(client, "bash -c 'echo $$; exec sleep 60'", abort.signal)
    const running = rejectionOf(result)
    cluster.router.break()
    abort.abort()
    expect(await running).toMatchObject({ name: 'AbortError' })
    await holds(async () => (await client.exec(`kill -0 ${pid}`)).exitCode === 1)
  })
})

describe('terminals', () => {
  it('use a WebSocket, which the router does not cut', async () => {
    const process = await client.startProcess('cat', { pty: { cols: 80, rows: 24 } })
    await process.write('one\n')
    // A request that began later than the WebSocket is cut meanwhile.
    const { wait, release } = gate(1)
    await client.exec(wait)
    await release
    await process.write('two\n')
    await process.waitForLog('two')
    expect(cluster.router.lastHeaders()).not.toHaveProperty('authorization')
    await process.kill()
  })
})

describe('the router', () => {
  it('receives the token in a header of its own, and the place of the sandbox', async () => {
    await client.exec('true')
    const headers = cluster.router.lastHeaders()
    expect(headers['x-nacre-token']).toBe(TOKEN)
    expect(headers).not.toHaveProperty('authorization')
    expect(headers).toMatchObject({ 'x-sandbox-namespace': 'agents', 'x-sandbox-port': String(PORT) })
    expect(headers['x-sandbox-uid']).toMatch(/^uid-/)
  })

  it('makes typed errors of what it refuses itself', async () => {
    const bad = new SandboxClient({ url: cluster.router.url, headers: { 'x-sandbox-id': 'No-Label' } })
    const refused = await rejectionOf(bad.exec('true'))
    expect(refused).toMatchObject({ code: 'REQUEST_REFUSED' })
    expect(refused.message).toContain('Invalid sandbox ID format')
    const none = new SandboxClient({ url: cluster.router.url, headers: { 'x-sandbox-id': 'none' } })
    const unreachable = await rejectionOf(none.exec('true'))
    expect(unreachable).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect(unreachable.message).toContain('Could not connect to the backend sandbox: none')
  })
})
