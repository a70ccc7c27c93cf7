import { describe, expect, it } from 'vitest'
import { milliseconds } from '../../lib/schema/numbers.js'
import { readOptions, readWithDefaults } from '../../lib/schema/read.js'
import { killSignal } from '../../lib/schema/signals.js'
import { flag } from '../../lib/schema/values.js'
import { refusalOf } from '../helpers/thrown.js'

const table = { timeout: milliseconds, check: flag }
const read = (options: unknown) => readOptions(table, options, 'exec')

describe('readOptions', () => {
  it('returns given values, and nothing for undefined', () => {
    expect(read(undefined)).toEqual({})
    expect(read({})).toEqual({})
    expect(read({ timeout: 5, check: undefined })).toEqual({ timeout: 5 })
  })

  it('names an unknown option and lists the known ones', () => {
    const error = refusalOf(() => read({ timeOut: 5 }))
    expect(error.code).toBe('INVALID_OPTION')
    expect(error.message).toBe('exec has no option "timeOut"; did you mean "timeout"? It has: timeout, check')
  })

  for (const name of ['toString', 'constructor', '__proto__', 'hasOwnProperty', '']) {
    it(`does not know ${JSON.stringify(name)}, whatever objects inherit`, () => {
      const options = JSON.parse(`{${JSON.stringify(name)}: 1}`)
      expect(refusalOf(() => read(options)).message).toContain(`no option ${JSON.stringify(name)}`)
    })
  }

  it('refuses an unknown option even when it is undefined', () => {
    expect(refusalOf(() => read({ timeot: undefined })).message).toContain('timeot')
  })

  it('rounds times up, so that 0.5 does not become 0', () => {
    expect([0, 0.5, 1, 1500.2].map((timeout) => read({ timeout }).timeout)).toEqual([0, 1, 1, 1501])
  })

  it('takes objects without a prototype, frozen ones, proxies and getters', () => {
    expect(read(Object.assign(Object.create(null), { timeout: 1 }))).toEqual({ timeout: 1 })
    expect(read(Object.freeze({ timeout: 1 }))).toEqual({ timeout: 1 })
    expect(read(new Proxy({ timeout: 1 }, {}))).toEqual({ timeout: 1 })
  })

  it('reads a getter once', () => {
    let reads = 0
    const options = {
      get timeout() {
        reads++
        return reads === 1 ? 5 : -1
      },
    }
    expect(read(options)).toEqual({ timeout: 5 })
    expect(reads).toBe(1)
  })

  it('does not take inherited properties for options', () => {
    expect(read(Object.create({ timeout: -1, nonsense: 1 }))).toEqual({})
  })

  it('refuses a property whose getter throws, with the exception as the cause', () => {
    const cause = new Error('no')
    const getter = {
      get timeout(): number {
        throw cause
      },
    }
    const { proxy, revoke } = Proxy.revocable({}, {})
    revoke()
    expect(refusalOf(() => read(getter)).cause).toBe(cause)
    expect(refusalOf(() => read(proxy)).cause).toBeInstanceOf(TypeError)
    expect(refusalOf(() => read({ timeout: proxy })).cause).toBeInstanceOf(TypeError)
  })
})

describe('readWithDefaults', () => {
  const signals = {
    timeout: { ...milliseconds, default: 7 },
    signal: { ...killSignal, default: 'SIGTERM' },
    check: flag,
  }
  const complete = (options: unknown) => ({ ...readWithDefaults(signals, options, 'exec') })

  it('returns the checked default of each option that is not given, and undefined where there is none', () => {
    expect(complete(undefined)).toStrictEqual({ timeout: 7, signal: 15, check: undefined })
    expect(complete({ timeout: 0, signal: undefined })).toStrictEqual({
      timeout: 0,
      signal: 15,
      check: undefined,
    })
    expect(complete({ signal: 'SIGKILL', check: false })).toStrictEqual({
      timeout: 7,
      signal: 9,
      check: false,
    })
  })

  it('takes no default from Object.prototype', () => {
    Object.assign(Object.prototype, { default: true, check: true })
    try {
      expect(Object.hasOwn(complete({}), 'check')).toBe(true)
      expect(complete({}).check).toBe(undefined)
    } finally {
      for (const name of ['default', 'check']) Reflect.deleteProperty(Object.prototype, name)
    }
  })
})
