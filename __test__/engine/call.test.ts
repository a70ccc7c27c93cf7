/** Calls of the programs of engines: whatever these start or print, each call ends in time. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { call, reasonOf } from '../../lib/engine/call.js'
import * as proc from '../helpers/proc.js'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'

const LONG = 60_000

/** Runs a script of bash, which can write its notes to `$PLACE`. */
const run = (script: string, options: { timeout?: number; signal?: AbortSignal; place?: string } = {}) =>
  call('/bin/bash', ['-c', script], {
    env: { ...process.env, PLACE: options.place },
    timeout: options.timeout ?? LONG,
    signal: options.signal,
  })

describe('a call', () => {
  it('has the exit code and both outputs', async () => {
    expect(await run('echo out; echo err >&2')).toEqual({
      ...{ isOk: true, exitCode: 0, isLate: false },
      ...{ stdout: 'out', stderr: 'err' },
    })
    expect(await run('echo out; exit 7')).toMatchObject({
      isOk: false,
      exitCode: 7,
      stdout: 'out',
      stderr: '',
    })
    expect(reasonOf(await run('exit 7'))).toBe('it ended with exit code 7')
    expect(reasonOf(await run('kill -9 $$'))).toBe('it was ended by SIGKILL')
    expect(await run('cat')).toMatchObject({ isOk: true, stdout: '' })
  })

  it('of a program that is missing says so', async () => {
    const answer = await call('/proc/does/not/exist', [], { env: {}, timeout: LONG })
    expect(answer).toMatchObject({ isOk: false, isLate: false })
    expect(answer.stderr).toContain('ENOENT')
  })

  it('whose arguments are too large says so', async () => {
    expect(await run(`: ${'x'.repeat(3_000_000)}`)).toMatchObject({
      isOk: false,
      stderr: expect.stringContaining('E2BIG'),
    })
  })

  it('ends with everything that the program has started, at its limit', () =>
    withDirectory(async (place) => {
      const answer = await run('sleep 600 & echo $! >"$PLACE/pid"; sleep 600', { timeout: 500, place })
      expect(answer).toMatchObject({ isOk: false, isLate: true })
      await gone(place)
    }))

  it('ends with everything that the program has started, by an abort', () =>
    withDirectory(async (place) => {
      const controller = new AbortController()
      const script = 'trap "" TERM; sleep 600 & echo $! >"$PLACE/pid"; wait'
      const pending = run(script, { signal: controller.signal, place })
      await pidOf(place)
      controller.abort()
      expect(await pending).toMatchObject({ isOk: false, isLate: false })
      await gone(place)
      expect((await run('echo x', { signal: controller.signal })).isOk).toBe(false)
    }))

  it('does not wait for another program that has the outputs', () =>
    withDirectory(async (place) => {
      const answer = await run('echo out; sleep 600 & echo $! >"$PLACE/pid"', { place })
      expect(answer).toMatchObject({ isOk: true, stdout: 'out' })
      process.kill(await pidOf(place), 'SIGKILL')
    }))

  it('does not wait at its limit for a program that has left the group', () =>
    withDirectory(async (place) => {
      const script = 'setsid bash -c \'echo $$ >"$PLACE/pid"; exec sleep 600\' & sleep 600'
      const pending = run(script, { timeout: 1500, place })
      const pid = await pidOf(place)
      expect(await pending).toMatchObject({ isOk: false, isLate: true })
      process.kill(pid, 'SIGKILL')
    }))

  it('ends when too much is printed', async () => {
    const answer = await run('exec yes')
    expect(answer.isOk).toBe(false)
    expect(reasonOf(answer)).toContain('it printed more than')
  })
})

async function withDirectory(test: (place: string) => Promise<void>): Promise<void> {
  const place = temporary('nacre-call-')
  await test(place)
}

function pidOf(place: string): Promise<number> {
  return until(
    () => {
      try {
        return Number(readFileSync(path.join(place, 'pid'), 'utf8')) || undefined
      } catch {
        return undefined
      }
    },
    () => 'the program has not begun',
  )
}

async function gone(place: string): Promise<void> {
  const pid = await pidOf(place)
  await until(
    () => !proc.isAlive(pid) || undefined,
    () => `process ${pid} is left`,
  )
}
