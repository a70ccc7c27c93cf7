// @ts-check
/**
 * The tests of limits that need controllers. Run by `npm run test:limits` as root in a guest, where processes start ten
 * times slower than outside: few tests, generous times.
 */
import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { after, test } from 'node:test'
import { Sandbox } from '../dist/index.js'

const MiB = 1 << 20

/** A program that takes memory and says so, then waits. */
const hog = (/** @type {number} */ bytes) =>
  `node -e 'const a=Buffer.alloc(${bytes},1);console.log("took",a.length);setInterval(()=>{},1000)'`

/**
 * @param {import('../index.js').SandboxOptions} options
 * @param {(sandbox: Sandbox) => Promise<void>} use
 */
async function withSandbox(options, use) {
  const sandbox = new Sandbox({ cwd: '/tmp', stateDir: '/tmp/state', ...options })
  try {
    await use(sandbox)
  } finally {
    await sandbox.destroy()
  }
}

function groups(directory = '/sys/fs/cgroup') {
  return readdirSync(directory, { withFileTypes: true })
    .filter((entry) => entry.isDirectory() && entry.name.startsWith('nacre'))
    .map((entry) => entry.name)
}

after(() => assert.deepEqual(groups(), [], 'a control group is left behind'))

test('the controllers are found', async () => {
  await withSandbox({}, async (sandbox) => {
    const { cgroup, controllers } = await sandbox.capabilities()
    assert.equal(cgroup, 'v2')
    for (const name of ['memory', 'cpu', 'pids']) assert.ok(controllers.includes(name), name)
  })
})

test('a memory hog over its limit ends by oom, its siblings live', async () => {
  await withSandbox({}, async (sandbox) => {
    const sibling = await sandbox.startProcess('sleep 1000')
    const greedy = await sandbox.startProcess(`${hog(200 * MiB)} & wait`, { limits: { memory: 80 * MiB } })
    const { reason, signal } = await greedy.waitForExit({ timeout: 60_000 })
    assert.equal(reason, 'oom')
    assert.equal(signal, 'SIGKILL')
    assert.equal(sibling.status, 'running')
    assert.equal((await sandbox.exec('echo on')).stdout, 'on\n')
  })
})

test('a process within its limit is left alone, and its peak is known', async () => {
  await withSandbox({}, async (sandbox) => {
    const modest = await sandbox.startProcess(hog(40 * MiB), { limits: { memory: 200 * MiB } })
    await modest.waitForLog('took', { timeout: 60_000 })
    const { memory, memoryPeak, pids } = await modest.stats()
    assert.ok(memoryPeak >= 40 * MiB && memoryPeak <= 200 * MiB, `peak ${memoryPeak}`)
    assert.ok(memory > 0 && pids >= 1, `${memory} ${pids}`)
  })
})

test('a fork bomb is bounded, and ended by its timeout', async () => {
  await withSandbox({ limits: { pids: 40 } }, async (sandbox) => {
    const other = await sandbox.createSession()
    const started = performance.now()
    await assert.rejects(
      sandbox.exec('bomb() { bomb | bomb & }; bomb; sleep 1000', { timeout: 3000, forceKillAfterDelay: 500 }),
      { code: 'COMMAND_TIMEOUT' },
    )
    assert.ok(performance.now() - started < 30_000)
    assert.equal((await other.exec('echo on', { timeout: 20_000 })).stdout, 'on\n')
  })
})

test('a start beyond the limit of processes is refused', async () => {
  await withSandbox({ limits: { pids: 25 } }, async (sandbox) => {
    await sandbox.exec('for i in {1..18}; do sleep 1000 & done 2>/dev/null')
    const started = performance.now()
    const attempts = await Promise.allSettled(
      Array.from({ length: 6 }, () => sandbox.startProcess('sleep 1000 & sleep 1000 & sleep 1000')),
    )
    const refused = attempts.flatMap((attempt) =>
      attempt.status === 'rejected' ? [attempt.reason.code] : [],
    )
    assert.ok(refused.length > 0, 'nothing was refused')
    for (const code of refused) assert.equal(code, 'SPAWN_FAILED')
    assert.ok(performance.now() - started < 20_000)
  })
})

test('half a processor is half the time', async () => {
  await withSandbox({}, async (sandbox) => {
    const busy = await sandbox.startProcess('while :; do :; done', { limits: { cpus: 0.2 } })
    const before = (await busy.stats()).cpuTime
    const started = performance.now()
    await new Promise((resolve) => setTimeout(resolve, 3000))
    const share = ((await busy.stats()).cpuTime - before) / (performance.now() - started)
    assert.ok(share > 0.1 && share < 0.35, `a share of ${share}`)
  })
})

test('the limits of a sandbox hold for a session after its last one has ended', async () => {
  await withSandbox({ limits: { pids: 20 } }, async (sandbox) => {
    for (let times = 0; times < 2; times++) {
      const session = await sandbox.createSession()
      assert.match((await session.exec('cat /proc/self/cgroup')).stdout, /nacre-sandbox-/)
      const bomb = await session.exec('for i in {1..40}; do sleep 1000 & done 2>&1; kill $(jobs -p)')
      assert.match(bomb.stdout, /fork: /)
      await session.delete()
    }
  })
})

test('the limits of a sandbox are for all of it together', async () => {
  await withSandbox({ limits: { memory: 120 * MiB } }, async (sandbox) => {
    const both = await Promise.all([1, 2].map(() => sandbox.startProcess(hog(90 * MiB))))
    const ends = both.map((process) => process.waitForExit({ timeout: 60_000 }).catch(() => undefined))
    assert.ok(await Promise.race(ends), 'nobody was killed')
    assert.match(readFileSync('/proc/self/cgroup', 'utf8'), /init/)
  })
})

test('a job over its memory limit ends by oom, and one that forks too much is held back', async () => {
  await withSandbox({ jobsRoot: '/tmp/jobs' }, async ({ jobs }) => {
    const greedy = await jobs.start({ command: `${hog(200 * MiB)}`, limits: { memory: 80 * MiB } })
    const bomb = await jobs.start({
      command: 'for i in {1..60}; do sleep 1000 & done; wait',
      limits: { pids: 20 },
      timeoutSeconds: 5,
    })
    assert.equal((await jobs.wait(greedy)).reason, 'oom')
    assert.equal((await jobs.wait(bomb)).reason, 'timeout')
    const { raw } = await jobs.read(bomb)
    assert.match(String(raw), /fork: /)
    for (const job of [greedy, bomb]) await jobs.remove(job)
  })
})
