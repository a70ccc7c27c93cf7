import { describe, expect, it } from 'vitest'
import { countFailures, hasFailed, restartDelay } from '../../lib/backends/native/processes/restart.js'
import type { NativeProcess } from '../../lib/boundary/index.js'

const end = (state: Partial<NativeProcess>): NativeProcess => ({
  processId: 'p',
  number: 1,
  sessionId: 's',
  pid: 2,
  command: 'x',
  state: 'exited',
  startedAt: 0,
  endedAt: 1000,
  restored: false,
  ...state,
})

describe('hasFailed', () => {
  const cases: Array<[Partial<NativeProcess>, boolean]> = [
    [{ reason: 'exit', exitCode: 0, state: 'exited' }, false],
    [{ reason: 'exit', exitCode: 1 }, true],
    [{ reason: 'signal', signal: 11 }, true],
    [{ reason: 'oom', signal: 9 }, true],
    [{ reason: 'timeout', signal: 15 }, false],
    [{ reason: 'killed', signal: 15, state: 'killed' }, false],
    [{ state: 'crashed' }, true],
  ]
  for (const [state, failed] of cases) {
    it(`${JSON.stringify(state)}: ${failed}`, () => expect(hasFailed(end(state))).toBe(failed))
  }
})

describe('restartDelay', () => {
  it('doubles, up to 30 s', () => {
    expect([1, 2, 3, 7, 8, 1000].map((failures) => restartDelay(500, failures))).toEqual([
      500, 1000, 2000, 30_000, 30_000, 30_000,
    ])
  })

  it('is never below the first, however long that is', () => {
    expect([1, 5].map((failures) => restartDelay(60_000, failures))).toEqual([60_000, 60_000])
  })
})

describe('countFailures', () => {
  it('begins anew after a minute without trouble', () => {
    expect(countFailures(4, end({ endedAt: 59_999 }))).toBe(5)
    expect(countFailures(4, end({ endedAt: 60_000 }))).toBe(1)
  })
})
