/** Worker threads: each has a sandbox of its own, and is ended at whatever moment. */
import { describe, expect, it } from 'vitest'
import { expectGone, type Host, startHost } from '../helpers/host.js'
import { chosenModes } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { until } from '../helpers/until.js'

/**
 * `work` is the program of a worker: a job in the background, three commands of which one runs, and a session. `start`
 * gives a worker; `begun` resolves when its first command has ended.
 */
const common = `
  const { Worker } = require('worker_threads')
  const work = (ending) => "const { Sandbox } = require('nacre'); const { parentPort } = require('worker_threads'); " +
    "const sandbox = new Sandbox({ cwd: '/tmp' }); sandbox.exec('sleep 600 & setsid sleep 600 & echo x').then(async () => { " +
    "for (let n = 0; n < 3; n++) sandbox.exec('sleep 600').catch(() => {}); " +
    "(await sandbox.createSession()).exec('sleep 600; echo', { onOutput() {} }).catch(() => {}); " +
    "parentPort.postMessage('begun'); " + ending + " })"
  const start = (ending = '') => {
    const worker = new Worker(work(ending), { eval: true })
    const ended = new Promise((resolve) => worker.once('exit', resolve))
    worker.on('error', () => {})
    return { worker, ended, begun: new Promise((resolve) => worker.once('message', resolve)) }
  }
  const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms))
  const twenty = (make) => Promise.all(Array.from({ length: 20 }, (_, index) => make(index)))
  const main = async () => {
    const sandbox = new Sandbox({ cwd: '/tmp' })
    await sandbox.exec('x=mine; cd /usr')
    const files = () => require('fs').readdirSync('/proc/self/fd').length
    const before = files()
    await run()
    // The descriptors of forty shells would be nearly a thousand.
    for (let waited = 0; files() > before + 4 && waited < 200; waited++) await pause(5)
    const { stdout } = await sandbox.exec('echo $x; pwd')
    await sandbox.destroy()
    print('done ' + (files() > before + 4 ? files() - before + ' files more ' : '') + stdout.trim().replace('\\n', ' '))
    setInterval(() => {}, 1000)
  }
`

const ways: Array<{ name: string; run: string }> = [
  {
    name: 'twenty concurrent workers, terminated while their commands run',
    run: 'await twenty(async () => { const { worker, begun } = start(); await begun; await worker.terminate() })',
  },
  {
    name: 'twenty concurrent workers, terminated while they load the addon and start their shells',
    run: 'await twenty(async (index) => { const { worker } = start(); await pause(5 * index); await worker.terminate() })',
  },
  {
    name: 'that end by themselves',
    run: "await twenty(async () => { const { ended } = start('process.exit(0)'); await ended })",
  },
  {
    name: 'that throw',
    run: "await twenty(async () => { const { ended } = start('setTimeout(() => { throw new Error() })'); await ended })",
  },
]

/** The host lives on and has ended its own sandbox: nothing but itself may carry the tag. */
async function expectAlone({ tag, pid }: Host): Promise<void> {
  const left = () => proc.tagged(tag).filter((entry) => entry.pid !== pid)
  await until(
    () => left().length === 0 || undefined,
    () => `left behind: ${left().map(proc.show).join('\n')}`,
  )
}

for (const mode of chosenModes) {
  describe(`worker threads, ${mode.name},`, () => {
    for (const { name, run } of ways) {
      it(name, async () => {
        const host = startHost(`${common} const run = async () => { ${run} }; main()`, [], mode.env)
        await host.printed('done')
        expect(host.output()).toBe('done mine /usr\n')
        await expectAlone(host)
        proc.kill(host.pid)
        await host.ended()
        await expectGone(host.tag)
      })
    }
  })
}
