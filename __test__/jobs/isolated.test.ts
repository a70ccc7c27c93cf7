/** Isolated jobs: their pid namespace ends with them, and not earlier. */
import { expect, it } from 'vitest'
import { expectNoProcess, type JobPlace, untilPrinted, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { holds } from '../helpers/until.js'

// In /var/tmp, of which isolated programs see the machine's own.
const isolated = (title: string, test: (place: JobPlace) => Promise<void>) =>
  it(title, () => withJobs(test, { isolation: { processes: 'own' } }, '/var/tmp'))

isolated('a job has processes of its own, and leaves none behind', async ({ jobs, tag }) => {
  const job = await jobs.start({ command: 'echo $$ $PPID; ps -e -o pid= | wc -l' })
  const status = await jobs.wait(job)
  expect(status).toMatchObject({ state: 'exited', exitCode: 0, alive: false })
  const [own, parent] = (await jobs.read(job)).raw.split(/\s+/)
  expect([Number(own) < 10, parent]).toEqual([true, '0'])
  await expectNoProcess(tag)
})

isolated(
  'background processes outlive the command, and the job ends with the last one',
  async ({ jobs, tag }) => {
    const nap = proc.uniqueSleep()
    const job = await jobs.start({ command: `(setsid ${nap} &) ; echo up; exit 7` })
    await jobs.wait(job)
    expect(await jobs.status(job)).toMatchObject({ exitCode: 7, alive: true })
    await proc.untilRuns(nap)
    for (const { pid } of proc.listProcesses().filter(({ pid }) => proc.commandLine(pid).includes(nap))) {
      if (proc.carries(tag, pid)) proc.kill(pid)
    }
    await holds(async () => !(await jobs.status(job)).alive)
    await expectNoProcess(tag)
  },
)

isolated('cancel ends what left the session and ignores signals', async ({ jobs, tag }) => {
  const nap = proc.uniqueSleep()
  const job = await jobs.start({ command: `trap '' TERM; (setsid setsid ${nap} &); echo up; ${nap}` })
  await proc.untilRuns(nap, 2)
  await jobs.cancel(job, { graceMs: 100 })
  expect(proc.runs(nap)).toBe(false)
  expect(await jobs.status(job)).toMatchObject({ signal: 'SIGKILL', reason: 'cancelled' })
  await expectNoProcess(tag)
})

isolated('a killed supervisor and guard leave nothing behind', async (place) => {
  const nap = proc.uniqueSleep()
  const job = await place.jobs.start({ command: `setsid ${nap} & echo up; wait` })
  await untilPrinted(place, job, 'up')
  await proc.untilRuns(nap)
  const guard = proc.listProcesses().find(({ pid }) => pid === job.pgid)?.parent ?? 0
  expect(proc.children(guard)).toEqual([job.pgid])
  proc.kill(guard)
  proc.kill(job.pgid)
  await expectNoProcess(place.tag)
})

isolated(
  'a job sees its own directory, and nothing of other jobs or of logs',
  async ({ jobs, root, sandbox, base }) => {
    const other = await jobs.start({ command: 'echo S_ECRET', jobId: 'other' })
    await jobs.wait(other)
    const service = await sandbox.startProcess('echo S_ECRET')
    await service.waitForExit()
    const look = `cat ${root}/own/meta.json | grep -c own; ls ${root}; grep -rs S_[E]CRET ${root} ${base}/state; echo end`
    const own = await jobs.start({ command: look, jobId: 'own' })
    await jobs.wait(own)
    expect((await jobs.read(own)).raw).toBe('1\nown\nend\n')
    const { stdout } = await sandbox.exec(`ls ${root}; grep -rs S_[E]CRET ${root} ${base}/state; echo end`)
    expect(stdout).toBe('end\n')
  },
)
