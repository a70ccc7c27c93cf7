/** The command writes straight into output.log: no process is in between. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { untilPrinted, withJobs } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'

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
