import { expect, it } from 'vitest'
import { isoTime } from '../lib/base/time.js'

it('writes times as Date does, in any order', () => {
  const start = Date.UTC(2026, 11, 31, 23, 59, 59, 997)
  const times = [0, 1, 2, 3, 1003, 2, 60_000].map((later) => start + later)
  for (const time of [...times, 0, 999, -1, -1000, -86_400_001, 951_782_400_007]) {
    expect(isoTime(time)).toBe(new Date(time).toISOString())
  }
})

it('cuts fractions of a millisecond off', () => {
  expect(isoTime(1_000.9)).toBe('1970-01-01T00:00:01.000Z')
  expect(isoTime(1_999.9996)).toBe('1970-01-01T00:00:01.999Z')
})
