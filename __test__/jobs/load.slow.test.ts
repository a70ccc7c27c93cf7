/** Many jobs, much output, and readers that do not live long. */
import { createHash } from 'node:crypto'
import { createReadStream, existsSync, statSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { groupsOf, ON_DISK, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'

it(
  '1,000 jobs leave no process, group, directory or descriptor',
  () =>
    withJobs(async ({ jobs, root, tag }) => {
      await jobs.list()
      const [ids, files] = [new Set<string>(), proc.openFiles().length]
      for (let round = 0; round < 50; round++) {
        const started = await Promise.all(Array.from({ length: 20 }, () => jobs.start({ command: ['true'] })))
        for (const { jobId } of started) ids.add(jobId)
        await Promise.all(started.map((job) => jobs.wait(job)))
        await Promise.all(started.map((job) => jobs.remove(job)))
      }
      const left = () => [
        ...proc.tagged(tag).map(proc.show),
        ...groupsOf(ids),
        ...(proc.openFiles().length > files ? proc.openFiles() : []),
      ]
      await until(
        () => left().length === 0 || undefined,
        () => `left behind: ${left().join('\n')}`,
      )
      expect(ids.size).toBe(1000)
      expect(proc.entries(root)).toEqual([])
    }),
  120_000,
)

describe('a job that prints 1 GB', () => {
  it(
    'is read without gap or duplicate by readers that are killed every 100 ms',
    () =>
      withJobs(
        async ({ jobs, root }) => {
          const scratch = temporary('nacre-jobs-reader-')
          const job = await jobs.start({ command: 'seq 1 120000000 | head -c 1073741824', jobId: 'big' })
          const hash = createHash('sha256')
          const place = path.join(scratch, 'copy')
          let [lives, hashed] = [0, 0]
          for (; !existsSync(path.join(scratch, 'done')); lives++) {
            const reader = startHost(readerProgram(root, scratch))
            await Promise.race([reader.printed('ready').then(() => sleep(100)), reader.ended()])
            if (reader.child.exitCode === null) proc.kill(reader.pid)
            expect(await reader.ended()).toSatisfy((end) => end === 'SIGKILL' || end === 0, reader.output())
            if (lives > 600) throw new Error(`${statSync(place).size} bytes after ${lives} readers`)
          }
          for await (const chunk of createReadStream(place)) {
            hash.update(chunk)
            hashed += chunk.length
          }
          expect(hashed).toBe(1024 ** 3)
          expect(hash.digest('hex')).toBe(await hashOf(job.outputFile))
          expect(lives).toBeGreaterThan(3)
        },
        {},
        ON_DISK,
      ),
    180_000,
  )
})

/** After so many bytes a reader waits to be killed: on a busy machine it may live for much longer than 100 ms. */
const MOST_READ = 32 * 1024 ** 2

/**
 * Copies the output piece by piece to where it belongs, and notes the cursor after each: a piece that was written twice
 * by two readers lands in the same place.
 */
function readerProgram(root: string, scratch: string): string {
  return `
    const fs = require('fs')
    const { jobs } = new Sandbox({ jobsRoot: ${JSON.stringify(root)} })
    const [copy, note, done] = ['copy', 'note', 'done'].map((name) => ${JSON.stringify(scratch)} + '/' + name)
    const file = fs.openSync(copy, fs.constants.O_RDWR | fs.constants.O_CREAT)
    let left = ${MOST_READ}
    const read = async () => {
      print('ready')
      let cursor = fs.existsSync(note) ? Number(fs.readFileSync(note, 'utf8')) : 0
      for await (const piece of jobs.follow('big', cursor, { encoding: 'buffer' })) {
        fs.writeSync(file, piece.raw, 0, piece.bytesFetched, piece.cursor - piece.bytesFetched)
        fs.writeFileSync(note + '.tmp', String(piece.cursor))
        fs.renameSync(note + '.tmp', note)
        if ((left -= piece.bytesFetched) < 0) await new Promise(() => setInterval(() => {}, 1000))
      }
      fs.writeFileSync(done, '')
    }
    read().then(() => process.exit(0))
  `
}

async function hashOf(file: string): Promise<string> {
  const hash = createHash('sha256')
  for await (const chunk of createReadStream(file)) hash.update(chunk)
  return hash.digest('hex')
}
