/** Following a job: nothing missing, nothing twice, no waiting that cannot be given up. */
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { closedGate, itWithJobs, untilGone, untilPrinted, withJobs } from '../helpers/jobs.js'
import { all } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

itWithJobs('follow returns existing and new output, to the end', async ({ jobs }) => {
  const job = await jobs.start({
    command: 'for i in {1..20}; do printf "line $i\\n"; sleep 0.01; done; printf tail',
  })
  const pieces = await all(jobs.follow(job))
  const text = pieces.map(({ raw }) => raw).join('')
  expect(text).toBe(`${Array.from({ length: 20 }, (_, index) => `line ${index + 1}\n`).join('')}tail`)
  expect(pieces.at(-1)?.cursor).toBe(text.length)
  expect((await all(jobs.follow(job, 7))).map(({ raw }) => raw).join('')).toBe(text.slice(7))
  expect(await all(jobs.follow(job, 1e6))).toEqual([])
})

itWithJobs('follow by lines delivers the unterminated tail once the job has ended', async (place) => {
  const { jobs } = place
  const [first, second] = [closedGate(place), closedGate(place)]
  const job = await jobs.start({
    command: `printf 'a\\nb'; ${first.passed}; printf 'c\\nd'; ${second.passed}; printf e`,
  })
  const pieces = jobs.follow(job, 0, { lines: true })
  expect((await pieces.next()).value?.raw).toBe('a\n')
  first.open()
  expect((await pieces.next()).value?.raw).toBe('bc\n')
  second.open()
  expect((await all(pieces)).map(({ raw }) => raw)).toEqual(['de'])
})

itWithJobs('follow ends when the supervisor is killed', async (place) => {
  const { jobs } = place
  const job = await jobs.start({ command: 'echo up; sleep 60' })
  await untilPrinted(place, job, 'up')
  const pieces = all(jobs.follow(job))
  process.kill(job.pgid, 'SIGKILL')
  expect((await pieces).map(({ raw }) => raw).join('')).toBe('up\n')
  expect((await untilGone(place, job)).state).toBe('crashed')
})

it('follow and wait can be given up, by a signal, by leaving, and by the end of the sandbox', () =>
  withJobs(async ({ jobs, root }) => {
    const job = await jobs.start({ command: 'echo up; sleep 60' })
    const controller = new AbortController()
    const waiting = rejectionOf(jobs.wait(job, { signal: controller.signal }))
    const following = rejectionOf(all(jobs.follow(job, 0, { signal: controller.signal })))
    const left = jobs.follow(job)
    await left.next()
    const pending = left.next()
    expect(await left.return?.()).toEqual({ done: true, value: undefined })
    expect(await pending).toEqual({ done: true, value: undefined })
    controller.abort('enough')
    for (const error of [await waiting, await following])
      expect(error).toMatchObject({ name: 'AbortError', cause: 'enough' })
    expect(await rejectionOf(jobs.wait(job, { signal: controller.signal }))).toMatchObject({
      name: 'AbortError',
    })
    const other = new Sandbox({ jobsRoot: root })
    const ended = rejectionOf(other.jobs.wait(job))
    await other.jobs.status(job)
    await other.destroy()
    expect(await ended).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await jobs.status(job)).toMatchObject({ state: 'running' })
  }))
