/** examples/job-queue, whose worker is killed while a job runs. */
import { once } from 'node:events'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Example, openExample } from '../helpers/example.js'
import { until } from '../helpers/until.js'

let example: Example

beforeEach(async () => {
  example = await openExample('job-queue')
}, 60_000)

afterEach(() => example.remove())

async function queue(...args: string[]): Promise<string> {
  const { exitCode, stdout, stderr } = await example.run('main.js', ...args)
  expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
  return stdout
}

/** A job that runs until the file `go` exists, and counts its runs. */
const PATIENT = 'echo ran >> count; until [ -e go ]; do sleep 0.02; done; echo released; exit 3'

describe('the job-queue example', () => {
  it('continues with a job whose worker was killed, and starts it only once', async () => {
    const waiting = path.join(example.directory, 'queue/waiting')
    await queue('add', 'first', PATIENT)
    await queue('add', 'second', 'echo second')
    const [file = ''] = readdirSync(waiting)
    const saved = path.join(example.directory, 'saved')
    copyFileSync(path.join(waiting, file), saved)

    const worker = example.start('main.js', 'work', '1')
    await until(
      async () => ((await queue('list')) === 'first: running\nsecond: waiting\n' ? true : undefined),
      () => 'the first job does not run',
    )
    worker.kill('SIGKILL')
    await once(worker, 'close')
    expect(await queue('list')).toBe('first: running\nsecond: waiting\n')

    // The worker might have been killed before it removed the file.
    renameSync(saved, path.join(waiting, file))
    expect(await queue('list')).toBe('first: running\nsecond: waiting\n')
    writeFileSync(path.join(example.directory, 'go'), '')
    const report = await queue('work', '1')
    expect(report).toContain('second started\nsecond ended: exit code 0\n')
    expect(await queue('list')).toBe('first: exit code 3\nsecond: exit code 0\n')
    expect(await queue('log', 'first')).toBe('released\n')
    expect(readFileSync(path.join(example.directory, 'count'), 'utf8')).toBe('ran\n')
    expect(readdirSync(waiting)).toEqual([])
  })

  it('keeps a job in the queue that could not be started', async () => {
    await queue('add', 'early', 'echo early')
    const jobs = path.join(example.directory, 'queue/jobs')
    writeFileSync(jobs, 'not a directory')
    expect((await example.run('main.js', 'work')).exitCode).not.toBe(0)
    renameSync(jobs, `${jobs}.old`)
    mkdirSync(jobs, { mode: 0o700 })
    expect(await queue('work')).toBe('early started\nearly ended: exit code 0\n')
  })
})
