/** The memory of a host stays where it was, whatever passes through it. */
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { collecting } from '../helpers/memory.js'

const MOST_KB = 32 * 1024

/** Events that have been seen lie about until the garbage collector comes, which is not the engine's to decide. */
const MOST_OF_EVENTS_KB = 4 * MOST_KB

/**
 * By how much the most memory that a host ever had in use (VmHWM in proc(5), which writing 5 to clear_refs sets back) grows
 * over `run`, in kB. With `settle`, only what is no garbage counts.
 */
async function growthOver(run: string): Promise<number> {
  const host = startHost(`
    const fs = require('fs')
    const most = () => Number(/VmHWM:\\s*(\\d+)/.exec(fs.readFileSync('/proc/self/status', 'latin1'))[1])
    const forget = () => fs.writeFileSync('/proc/self/clear_refs', '5')
    ${collecting}
    const main = async () => {
      const jobsRoot = fs.mkdtempSync('/tmp/nacre-growth-')
      const sandbox = new Sandbox({ cwd: '/tmp', maxBuffer: ${1 << 20}, jobsRoot })
      await sandbox.exec('head -c 8M /dev/zero', { onOutput() {} })
      const { jobId } = await sandbox.jobs.start({ command: 'head -c 256M /dev/zero' })
      await sandbox.jobs.wait(jobId)
      for await (const piece of sandbox.jobs.follow(jobId, 248 * 2 ** 20, { encoding: 'buffer' }));
      collect()
      forget()
      const before = most()
      let peak = 0
      const settle = () => {
        if (most() - before < ${MOST_OF_EVENTS_KB}) return
        collect()
        forget()
        peak = Math.max(peak, most())
      }
      ${run}
      print('RESULT ' + (Math.max(peak, most()) - before) + '.')
      await sandbox.destroy()
      fs.rmSync(jobsRoot, { recursive: true })
    }
    main()
  `)
  expect(await host.ended(60_000), host.output()).toBe(0)
  await expectGone(host.tag)
  return Number(/RESULT (\d+)\./.exec(host.output())?.[1])
}

it('2 GB of output of which 1 MiB is kept', async () => {
  const command = 'head -c 1G /dev/zero & yes | head -c 1G >&2; wait'
  expect(await growthOver(`await sandbox.exec('${command}')`)).toBeLessThan(MOST_KB)
}, 60_000)

it('half a GB that a callback sees all of, in events that do not pile up', async () => {
  const run = "await sandbox.exec('head -c 512M /dev/zero', { onOutput: settle })"
  expect(await growthOver(run)).toBeLessThan(MOST_OF_EVENTS_KB)
}, 60_000)

it('the output of a job, 256 MB', async () => {
  const run = "for await (const piece of sandbox.jobs.follow(jobId, 0, { encoding: 'buffer' })) settle()"
  expect(await growthOver(run)).toBeLessThan(MOST_OF_EVENTS_KB)
}, 60_000)
