/**
 * A call reaches the job that it has found, and never a later one with the same id. The orders that matter are tested one by
 * one in `crates/core/src/jobs/replaced_tests.rs`; `scripts/job-storm.mjs` runs many rounds.
 */
import { expect, it } from 'vitest'
import { type Host, startHost } from '../helpers/host.js'
import { closedGate, withJobs } from '../helpers/jobs.js'
import { holds, until } from '../helpers/until.js'

/** Enough to meet all calls. */
const ROUNDS = 8

/** A program that repeats a call on the job `one` until it is killed. It prints each outcome that cannot be. */
function repeat(root: string, call: string): Host {
  return startHost(`
    const { jobs } = new Sandbox({ jobsRoot: ${JSON.stringify(root)} })
    const check = (isTrue, told) => { if (!isTrue) print('wrong: ' + JSON.stringify(told)) }
    const isTrue = ({ state, alive, exitCode, signal, reason }) => state === 'running' ? alive
      : state === 'exited' && exitCode === null && signal === 'SIGSEGV' && reason === 'signal'
    const run = async () => {
      for (;;) await (${call})().catch(({ code, message }) =>
        check(['JOB_NOT_FOUND', 'JOB_RUNNING'].includes(code), [code, message]))
    }
    run()
    print('ready')
  `)
}

/** Ends the programs, which must have printed nothing. */
async function end(hosts: Host[]): Promise<void> {
  for (const host of hosts) host.child.kill('SIGKILL')
  for (const host of hosts) await host.ended()
  for (const host of hosts) expect(host.output()).toBe('ready\n')
}

it('removals of an ended job leave the next job with its id alone', () =>
  withJobs(async (place) => {
    const { jobs, root } = place
    const hosts = [1, 2, 3].map(() => repeat(root, `() => jobs.remove('one')`))
    for (const host of hosts) await host.printed('ready')
    for (let round = 0; round < ROUNDS; round++) {
      const gate = closedGate(place)
      const job = await jobs.start({ jobId: 'one', command: `echo new; ${gate.passed}` })
      await holds(async () => (await jobs.read(job)).raw === 'new\n')
      expect(await jobs.status(job)).toMatchObject({ state: 'running', alive: true })
      gate.open()
      await holds(async () => (await jobs.attach('one')) === null)
    }
    await end(hosts)
  }))

it('reads beside a removal return the whole truth or JOB_NOT_FOUND', () =>
  withJobs(async ({ jobs, root }) => {
    const hosts = [
      `() => jobs.remove('one')`,
      `async () => { const found = await jobs.status('one'); check(isTrue(found), found) }`,
      `async () => {
        const { raw, status } = await jobs.read('one')
        check(isTrue(status) && (raw === 'all\\n' || (raw === '' && status.state === 'running')), { raw, status })
      }`,
      `async () => { for (const { status } of await jobs.list()) check(isTrue(status), status) }`,
    ].map((call) => repeat(root, call))
    for (const host of hosts) await host.printed('ready')
    for (let round = 0; round < ROUNDS; round++) {
      await until(
        () => jobs.start({ jobId: 'one', command: 'echo all; kill -SEGV $$' }).catch(() => undefined),
        () => 'it is not removed',
      )
    }
    await end(hosts)
  }))
