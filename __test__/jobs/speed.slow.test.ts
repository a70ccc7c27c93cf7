/** The command writes straight into output.log, with no process in between. */
import { spawn } from 'node:child_process'
import { statSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { ON_DISK, withJobs } from '../helpers/jobs.js'

const BYTES = 256 * 1024 * 1024
/** Beyond what the same command takes with its output in a file: a busy machine makes both vary. */
const MOST_TIMES = 3
/** The least of as many counts. */
const ROUNDS = 3

it('output.log is written at the speed of cat > file', () =>
  withJobs(
    async ({ jobs, root }) => {
      const command = `head -c ${BYTES} /dev/zero | cat`
      let best = Number.POSITIVE_INFINITY
      for (let round = 0; round < ROUNDS; round++) {
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
