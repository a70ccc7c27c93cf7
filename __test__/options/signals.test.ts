import { describe, expect, it } from 'vitest'
import { signalName } from '../../lib/base/signals.js'
import { abortSignal, killSignal } from '../../lib/schema/signals.js'
import { refusalOf } from '../helpers/thrown.js'

describe('processSignal', () => {
  it('takes names and numbers', () => {
    expect(killSignal.read('SIGTERM', 'killSignal')).toBe(15)
    expect(killSignal.read('SIGKILL', 'killSignal')).toBe(9)
    expect(killSignal.read(1, 'killSignal')).toBe(1)
    expect(killSignal.read(64, 'killSignal')).toBe(64)
  })

  for (const bad of [
    'SIGFOO',
    'TERM',
    'sigterm',
    '',
    '15',
    'toString',
    0,
    -1,
    65,
    99,
    1.5,
    Number.NaN,
    null,
    {},
    [],
  ]) {
    it(`refuses ${typeof bad} ${String(bad)}`, () => {
      const error = refusalOf(() => killSignal.read(bad, 'killSignal'))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(/^killSignal must be .* 1 to 64, not /)
    })
  }
})

describe('signalName', () => {
  it('names every number from 1 to 64 differently', () => {
    const names = new Set(Array.from({ length: 64 }, (_, index) => signalName(index + 1)))
    expect(names.size).toBe(64)
  })

  it('gives the common name where a number has two', () => {
    expect(signalName(6)).toBe('SIGABRT')
    expect(signalName(29)).toBe('SIGIO')
  })

  it('counts real-time signals from SIGRTMIN as bash does', () => {
    expect([34, 35, 64].map(signalName) as string[]).toEqual(['SIGRTMIN', 'SIGRTMIN+1', 'SIGRTMIN+30'])
  })
})

describe('abortSignal', () => {
  it('accepts signals and objects of the same shape', () => {
    const { signal } = new AbortController()
    expect(abortSignal.read(signal, 'signal')).toBe(signal)
    const lookalike = { aborted: false, addEventListener() {}, removeEventListener() {} }
    expect(abortSignal.read(lookalike, 'signal') as unknown).toBe(lookalike)
  })

  for (const bad of [null, 'SIGTERM', 15, {}, new AbortController(), new EventTarget()]) {
    it(`refuses ${typeof bad} ${String(bad)}`, () => {
      expect(refusalOf(() => abortSignal.read(bad, 'signal')).message).toMatch(
        /^signal must be an AbortSignal, not /,
      )
    })
  }
})
