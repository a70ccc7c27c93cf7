/**
 * Durable jobs: the time of a start, and of a status query and a read for a running job that prints nothing more. Also 256
 * MB to `output.log`, compared with a plain `cat > file`.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Sandbox } from 'nacre'
import { summarizeEach, time } from '../stats.mjs'

export const title = 'Durable jobs'
export const variants = ['']
const WRITE = 'head -c 256M /dev/zero | cat'

export async function measure(_variant, { quick }) {
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-bench-jobs-'))
  const sandbox = new Sandbox({ jobsRoot: path.join(base, 'jobs') })
  try {
    const { jobs } = sandbox
    const times = { start: await starts(jobs, quick ? 20 : 100), ...(await looks(jobs, quick ? 200 : 1000)) }
    const write = { job: [], file: [] }
    for (let round = 0; round < (quick ? 1 : 3); round++) {
      const job = await jobs.start({ command: WRITE })
      write.job.push((await jobs.wait(job)).duration)
      await jobs.remove(job)
      write.file.push(await time(() => run(`${WRITE} >'${base}/file'`)))
      rmSync(`${base}/file`)
    }
    return { ...summarizeEach(times), write: summarizeEach(write) }
  } finally {
    await sandbox.destroy()
    rmSync(base, { recursive: true, force: true })
  }
}

async function starts(jobs, count) {
  const samples = []
  for (let run = 0; run < count; run++) {
    let job
    samples.push(
      await time(async () => {
        job = await jobs.start({ command: 'true' })
      }),
    )
    await jobs.wait(job)
    await jobs.remove(job)
    // Waits until the machine is idle.
    await sleep(10)
  }
  return samples
}

async function looks(jobs, count) {
  const job = await jobs.start({ command: 'echo up; exec sleep 600' })
  let cursor = 0
  while (cursor < 3) ({ cursor } = await jobs.read(job, cursor))
  const samples = { status: [], read: [] }
  for (let look = 0; look < count; look++) {
    samples.status.push(await time(() => jobs.status(job)))
    samples.read.push(await time(() => jobs.read(job, cursor)))
  }
  await jobs.cancel(job, { graceMs: 100 })
  await jobs.remove(job)
  return samples
}

async function run(command) {
  const child = spawn('bash', ['-c', command], { stdio: 'ignore' })
  await once(child, 'close')
}
