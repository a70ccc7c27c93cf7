/** The command writes straight into output.log: nobody stands in between. */
import { spawn } from 'node:child_process'
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { ON_DISK, untilPrinted, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'

const BYTES = 256 * 1024 * 1024
/** Beyond what the same command takes with its output in a file: a busy machine makes both vary. */
const MOST_TIMES = 3
const ATTEMPTS = 5

it('output.log is written at the speed of cat > file', () =>
  withJobs(
    async ({ jobs, root }) => {
      const command = `head -c ${BYTES} /dev/zero | cat`
      let best = Number.POSITIVE_INFINITY
      for (let attempt = 0; attempt < ATTEMPTS && best > MOST_TIMES; attempt++) {
        const job = await jobs.start({ command })
        const status = await jobs.wait(job)
        expect(statSync(job.outputFile).size).toBe(BYTES)
        await jobs.remove(job)
        const file = path.join(root, 'plain')
        const begun = performance.now()
        await run(`(${command}) > '${file}'; rm '${file}'`)
        const plain = performance.now() - begun
        best = Math.min(best, (status.duration ?? 0) / plain)
      }
      expect(best).toBeLessThan(MOST_TIMES)
    },
    {},
    ON_DISK,
  ))

async function run(command: string): Promise<void> {
  const child = spawn('bash', ['-c', command], { stdio: 'ignore' })
  await new Promise((resolve) => child.on('close', resolve))
}

it('the command has the file itself, and its supervisor reads nothing of it', () =>
  withJobs(async (place) => {
    const job = await place.jobs.start({ command: 'echo up; sleep 600' })
    await untilPrinted(place, job, 'up')
    const { commandPid } = JSON.parse(readFileSync(path.join(job.dir, 'meta.json'), 'utf8'))
    const files = proc.openFiles(commandPid)
    for (const number of [1, 2]) expect(files).toContain(`${number} -> ${job.outputFile}`)
    expect(files.filter((file) => file.includes('-> pipe:'))).toEqual([])
    expect(proc.isAlive(job.pgid)).toBe(true)
  }))
