import { describe, expect, it } from 'vitest'
import { signalName } from '../../lib/base/signals.js'
import { abortSignal, killSignal } from '../../lib/schema/signals.js'

describe('processSignal', () => {
  it('takes names and numbers', () => {
    expect(killSignal.read('SIGTERM', 'killSignal')).toBe(15)
    expect(killSignal.read('SIGKILL', 'killSignal')).toBe(9)
    expect(killSignal.read(1, 'killSignal')).toBe(1)
    expect(killSignal.read(64, 'killSignal')).toBe(64)
  })
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
})
