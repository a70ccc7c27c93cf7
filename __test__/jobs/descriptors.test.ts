/** A program without a free descriptor knows nothing of a job: every call fails, and none takes the job for over. */
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { untilPrinted, withJobs } from '../helpers/jobs.js'

const CALLS = ['list', 'attach', 'status', 'read', 'wait', 'prune', 'remove'] as const

it('a running job is never reported as missing or ended, and not removed, when descriptors run out', () =>
  withJobs(async (place) => {
    const { jobs, root } = place
    const job = await jobs.start({ command: 'echo up; sleep 600', jobId: 'on' })
    await untilPrinted(place, job, 'up')
    // Each call needs a few descriptors, so each is made with none, with one, with two ...
    const host = startHost(
      `
      const fs = require('fs')
      const { jobs } = new Sandbox({ jobsRoot: ${JSON.stringify(root)} })
      const calls = ${JSON.stringify(CALLS)}
      const run = async () => {
        await jobs.status('none').catch(() => {})
        const outcomes = []
        for (let free = 0; free < 8; free++) {
          for (const name of calls) {
            const taken = []
            try { for (;;) taken.push(fs.openSync('/dev/null')) } catch {}
            for (let count = 0; count < free; count++) fs.closeSync(taken.pop())
            const signal = AbortSignal.timeout(50)
            const call = jobs[name](...(name === 'list' || name === 'prune' ? [] : name === 'wait' ? ['on', { signal }] : ['on']))
            const outcome = await call.then((value) => ({ value }), ({ code, name }) => ({ error: code ?? name }))
            for (const file of taken) fs.closeSync(file)
            outcomes.push({ free, name, ...outcome })
          }
        }
        print('outcomes ' + JSON.stringify(outcomes))
        process.exit(0)
      }
      run()
    `,
      ['bash', '-c', 'ulimit -n 100; exec "$@"', 'bash'],
    )
    expect(await host.ended(), host.output()).toBe(0)
    const outcomes: Array<{ name: (typeof CALLS)[number]; value?: unknown; error?: string }> = JSON.parse(
      /^outcomes (.*)$/m.exec(host.output())?.[1] ?? '[]',
    )
    expect(outcomes).toHaveLength(CALLS.length * 8)
    const unknown = ['ENGINE_ERROR', 'STATE_DIR_UNAVAILABLE']
    for (const outcome of outcomes) {
      const { name, value, error } = outcome
      if (error !== undefined && unknown.includes(error)) continue
      const told = JSON.stringify(outcome)
      if (name === 'list') expect(value, told).toMatchObject([{ jobId: 'on', status: { state: 'running' } }])
      if (name === 'attach') expect(value, told).toMatchObject({ jobId: 'on' })
      if (name === 'status') expect(value, told).toMatchObject({ state: 'running', alive: true })
      if (name === 'read') expect(value, told).toMatchObject({ raw: 'up\n', status: { state: 'running' } })
      if (name === 'wait') expect(error, told).toBe('ABORT_ERR')
      if (name === 'prune') expect(value, told).toEqual([])
      if (name === 'remove') expect(error, told).toBe('JOB_RUNNING')
    }
    expect(await jobs.status(job)).toMatchObject({ state: 'running', alive: true })
    await expectGone(host.tag)
  }))
