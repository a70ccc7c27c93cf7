/** Durable jobs are the same here and over HTTP. */
import { getEventListeners } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { serve } from '@nacre/server'
import type { Jobs } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withJobs } from '../helpers/jobs.js'
import { all } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

type AnyJobs = Omit<Jobs, 'root'>

function itHolds(name: string, test: (jobs: AnyJobs) => Promise<void>): void {
  it(`${name}, in this process`, () => withJobs(({ jobs }) => test(jobs)))
  it(`${name}, over HTTP`, () =>
    withJobs(async ({ sandbox }) => {
      const serving = await serve(sandbox, { port: 0 })
      const client = new SandboxClient({ url: serving.url })
      try {
        await test(client.jobs)
      } finally {
        await client.destroy()
        await serving.close()
      }
    }))
}

describe('jobs', () => {
  itHolds('start, end and are read', async (jobs) => {
    const job = await jobs.start({
      command: 'cat; echo "[$A]"; echo ä; exit 3',
      jobId: 'one',
      env: { A: 'x' },
      stdin: new Uint8Array([0, 255]),
      processName: 'a name',
    })
    expect(job).toMatchObject({ jobId: 'one', processName: 'a name' })
    expect(await jobs.wait(job)).toMatchObject({ state: 'exited', exitCode: 3, reason: 'exit', alive: false })
    const { raw, cursor, bytesFetched } = await jobs.read('one', 0, { encoding: 'buffer' })
    expect(Array.from(raw)).toEqual([0, 255, ...Buffer.from('[x]\nä\n')])
    expect([cursor, bytesFetched]).toEqual([9, 9])
    expect(await jobs.read('one', 6, { maxBytes: 2 })).toMatchObject({ raw: 'ä', cursor: 8 })
    expect(await jobs.status('one')).toMatchObject({ state: 'exited', exitCode: 3 })
    expect(await jobs.attach('one')).toEqual(job)
    expect(await jobs.attach('none')).toBeNull()
    expect((await jobs.list()).map(({ jobId }) => jobId)).toEqual(['one'])
    await jobs.remove(job)
    expect(await rejectionOf(jobs.status('one'))).toMatchObject({
      name: 'SandboxError',
      code: 'JOB_NOT_FOUND',
    })
  })

  itHolds('have ended when process substitutions have printed', async (jobs) => {
    for (const [jobId, command] of [
      ['redirection', 'seq 5 > >(sed s/^/x/)'],
      ['copied', 'exec > >(sed s/^/x/); sleep 60 > log 2>&1 & seq 5'],
    ] as const) {
      await jobs.start({ jobId, command })
      expect(await jobs.wait(jobId)).toMatchObject({ exitCode: 0 })
      expect((await jobs.read(jobId)).raw, jobId).toBe('x1\nx2\nx3\nx4\nx5\n')
    }
    await jobs.cancel('copied')
  })

  itHolds('are listed by state and name', async (jobs) => {
    await jobs.start({ command: 'true', jobId: 'over', processName: 'a' })
    await jobs.start({ command: 'sleep 60', jobId: 'on', processName: 'b' })
    await jobs.wait('over')
    const ids = async (filter: Parameters<typeof jobs.list>[0]) =>
      (await jobs.list(filter)).map(({ jobId }) => jobId)
    expect(await ids({ state: 'running' })).toEqual(['on'])
    expect(await ids({ state: 'exited' })).toEqual(['over'])
    expect(await ids({ state: 'crashed' })).toEqual([])
    expect(await ids({ processName: 'a' })).toEqual(['over'])
    expect(await ids({ processName: 'a', state: 'running' })).toEqual([])
    const wrong = { state: 'done' } as unknown as Parameters<typeof jobs.list>[0]
    expect((await rejectionOf(jobs.list(wrong))).message).toMatch(/^state must be 'running', 'exited' or/)
  })

  itHolds('that are over are pruned, and no others', async (jobs) => {
    await jobs.start({ command: 'true', jobId: 'over' })
    await jobs.start({ command: 'sleep 60 & true', jobId: 'left-behind' })
    await jobs.start({ command: 'sleep 60', jobId: 'on' })
    await jobs.wait('over')
    await jobs.wait('left-behind')
    expect(await jobs.prune({ olderThan: 60_000 })).toEqual([])
    expect(await jobs.prune()).toEqual(['over'])
    expect((await jobs.list()).map(({ jobId }) => jobId)).toEqual(['left-behind', 'on'])
    expect((await rejectionOf(jobs.prune({ olderThan: -1 }))).message).toContain('olderThan must be')
  })

  itHolds('leave no listener on a signal when they are followed and never read', async (jobs) => {
    const job = await jobs.start({ command: 'true' })
    const { signal } = new AbortController()
    expect(jobs.follow(job, 0, { signal })).toBeDefined()
    expect(getEventListeners(signal, 'abort')).toEqual([])
  })

  itHolds('have null for unknown properties, and Dates', async (jobs) => {
    const job = await jobs.start({ command: 'sleep 60', jobId: 'one' })
    const unknown = { exitCode: null, signal: null, reason: null, endTime: null, duration: null }
    expect(await jobs.status(job)).toEqual({ state: 'running', alive: true, ...unknown })
    expect((await jobs.read(job)).status).toMatchObject(unknown)
    const [info] = await jobs.list()
    expect(info).toMatchObject({ command: 'sleep 60', status: unknown })
    expect(info?.startTime).toBeInstanceOf(Date)
    await jobs.cancel(job, { graceMs: 100 })
    const status = await jobs.wait(job)
    expect(status).toMatchObject({ state: 'exited', exitCode: null, signal: 'SIGTERM', reason: 'cancelled' })
    expect(status.endTime).toBeInstanceOf(Date)
    expect(status.duration).toBeGreaterThan(0)
    await jobs.remove(job)
  })

  itHolds('take timeout, input and forceKillAfterDelay, and their other names', async (jobs) => {
    for (const [limit, text] of [
      [{ timeout: 50 }, { input: 'given' }],
      [{ timeoutSeconds: 0.05 }, { stdin: 'given' }],
    ]) {
      const late = await jobs.start({ command: 'sleep 60', ...limit })
      expect(await jobs.wait(late)).toMatchObject({ reason: 'timeout' })
      const fed = await jobs.start({ command: 'cat', timeout: 0, ...text })
      expect(await jobs.wait(fed)).toMatchObject({ reason: 'exit', exitCode: 0 })
      expect((await jobs.read(fed)).raw).toBe('given')
    }
    for (const options of [{ forceKillAfterDelay: 50 }, { graceMs: 50 }]) {
      const stubborn = await jobs.start({ command: "trap '' TERM; echo up; while :; do sleep 0.01; done" })
      for await (const { raw } of jobs.follow(stubborn)) if (raw.includes('up')) break
      await jobs.cancel(stubborn, options)
      expect(await jobs.wait(stubborn)).toMatchObject({ signal: 'SIGKILL', reason: 'cancelled' })
    }
  })

  itHolds(
    'are read without splitting while processes outlive the command, and followed until these end',
    async (jobs) => {
      const gates = mkdtempSync(path.join(tmpdir(), 'nacre-gates-'))
      const pass = (gate: string) => `until [ -e ${gates}/${gate} ]; do sleep 0.01; done`
      const command = `{ ${pass('one')}; printf '\\204\\nc'; ${pass('two')}; echo d; } & printf 'a\\nb\\303'; exit 4`
      const job = await jobs.start({ command })
      expect(await jobs.wait(job)).toMatchObject({ state: 'exited', exitCode: 4, alive: true })
      expect(await jobs.read(job)).toMatchObject({ raw: 'a\nb', cursor: 3, status: { alive: true } })
      expect(await jobs.read(job, 0, { lines: true })).toMatchObject({ raw: 'a\n', cursor: 2 })
      const pieces = jobs.follow(job, 0, { lines: true })
      expect((await pieces.next()).value?.raw).toBe('a\n')
      writeFileSync(`${gates}/one`, '')
      expect((await pieces.next()).value?.raw).toBe('bÄ\n')
      writeFileSync(`${gates}/two`, '')
      expect((await all(pieces)).map(({ raw }) => raw)).toEqual(['cd\n'])
      expect(await jobs.read(job)).toMatchObject({
        raw: 'a\nbÄ\ncd\n',
        status: { exitCode: 4, alive: false },
      })
      rmSync(gates, { recursive: true })
    },
  )

  itHolds('refuse an option together with its other name', async (jobs) => {
    const message = (names: string) => `${names} exclude each other`
    const refused: Array<[() => Promise<unknown>, string]> = [
      [() => jobs.start({ command: 'true', timeout: 1, timeoutSeconds: 1 }), 'timeout and timeoutSeconds'],
      [() => jobs.start({ command: 'true', input: '', stdin: '' }), 'input and stdin'],
      [() => jobs.cancel('x', { forceKillAfterDelay: 1, graceMs: 1 }), 'forceKillAfterDelay and graceMs'],
    ]
    for (const [call, names] of refused)
      expect(await rejectionOf(call())).toMatchObject({ code: 'INVALID_OPTION', message: message(names) })
    expect(await jobs.list()).toEqual([])
  })

  itHolds('are followed, cancelled and waited for', async (jobs) => {
    const job = await jobs.start({ command: 'for i in 1 2 3; do echo $i; sleep 0.02; done' })
    const pieces = await all(jobs.follow(job, 0, { lines: true }))
    expect(pieces.map(({ raw }) => raw).join('')).toBe('1\n2\n3\n')
    const long = await jobs.start({ command: ['sleep', '60'] })
    expect(await rejectionOf(jobs.remove(long))).toMatchObject({ code: 'JOB_RUNNING' })
    const controller = new AbortController()
    const waiting = rejectionOf(jobs.wait(long, { signal: controller.signal }))
    controller.abort('enough')
    expect(await waiting).toMatchObject({ name: 'AbortError', cause: 'enough' })
    await jobs.cancel(long, { graceMs: 1000 })
    expect(await jobs.status(long)).toMatchObject({ state: 'exited', signal: 'SIGTERM', reason: 'cancelled' })
  })

  itHolds('are refused by name when something is wrong with them', async (jobs) => {
    expect(await rejectionOf(jobs.start({ command: 'true', cwd: '/proc/does/not/exist' }))).toMatchObject({
      code: 'CWD_NOT_FOUND',
    })
    expect(await rejectionOf(jobs.read('none'))).toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect(await rejectionOf(jobs.follow('none').next())).toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect(await jobs.list()).toEqual([])
  })
})
