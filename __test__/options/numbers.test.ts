import { describe, expect, it } from 'vitest'
import { limitOptions } from '../../lib/calls/sandbox.js'
import { bytes, milliseconds } from '../../lib/schema/numbers.js'
import { refusalOf } from '../helpers/thrown.js'

describe('milliseconds', () => {
  for (const [given, kept] of [
    [0, 0],
    [1, 1],
    [0.5, 1],
    [1500.2, 1501],
    [2_147_483_647, 2_147_483_647],
  ] as const) {
    it(`takes ${given} as ${kept}`, () => {
      expect(milliseconds.read(given, 'timeout')).toBe(kept)
    })
  }

  for (const bad of [-1, -0.1, Number.NaN, 2 ** 31, Infinity, -Infinity, '5s', '5', 5n, null, true, [], {}]) {
    it(`refuses ${typeof bad} ${String(bad)} by name and bounds`, () => {
      const error = refusalOf(() => milliseconds.read(bad, 'timeout'))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(/^timeout must be .* from 0 to 2147483647, not /)
    })
  }
})

it('text with a unit gets an example', () => {
  expect(refusalOf(() => milliseconds.read('10s', 'timeout')).message).toMatch(
    /not "10s"; 10 seconds are 10000$/,
  )
  for (const [{ read }, name] of [
    [bytes, 'maxBuffer'],
    [limitOptions.memory, 'limits.memory'],
  ] as const)
    expect(refusalOf(() => read('1GB', name)).message).toMatch(/not "1GB"; 1 GiB is 1073741824$/)
})

describe('bytes', () => {
  it('takes whole numbers up to the largest safe one', () => {
    expect(bytes.read(0, 'maxBuffer')).toBe(0)
    expect(bytes.read(Number.MAX_SAFE_INTEGER, 'maxBuffer')).toBe(Number.MAX_SAFE_INTEGER)
  })

  for (const bad of [-1, 0.5, Number.NaN, 2 ** 53, Infinity, '1024', 1n, null]) {
    it(`refuses ${typeof bad} ${String(bad)} by name and bounds`, () => {
      const error = refusalOf(() => bytes.read(bad, 'maxBuffer'))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toContain('maxBuffer must be a whole number of bytes from 0 to 9007199254740991')
    })
  }
})
