import { describe, expect, it } from 'vitest'
import { completeEnv } from '../../lib/backends/native/plan/environment.js'
import { envChanges } from '../../lib/schema/env.js'
import { refusalOf } from '../helpers/thrown.js'

describe('envChanges', () => {
  it('turns variables into two lists, with null for unset ones', () => {
    expect(envChanges({ A: 'x', _b1: '', C: undefined }, 'env')).toEqual({
      names: ['A', '_b1', 'C'],
      values: ['x', '', null],
    })
  })

  it('takes any value that has no NUL, and objects without a prototype', () => {
    const env = Object.assign(Object.create(null), { A: ' \n\t"\'$(){}=\u{1f41a}' })
    expect(envChanges(env, 'env').values).toEqual([env.A])
  })

  it('takes a thousand variables', () => {
    const env = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`V${index}`, `${index}`]))
    expect(envChanges(env, 'env').names).toHaveLength(1000)
  })

  for (const bad of ['', 'A=B', '1A', 'A B', 'A-B', 'A\0', 'Ä', 'A\n', '__proto__ ', 'BASH_FUNC_f%%']) {
    it(`refuses the name ${JSON.stringify(bad)} and names it`, () => {
      const error = refusalOf(() => envChanges({ [bad]: 'x' }, 'env'))
      expect(error.code).toBe('INVALID_ENV_NAME')
      expect(error.message).toContain(JSON.stringify(bad))
    })
  }

  for (const bad of ['a\0b', 5, null, true, {}, ['x'], () => {}]) {
    it(`refuses the value ${typeof bad} ${JSON.stringify(bad)} and names the key`, () => {
      const error = refusalOf(() => envChanges({ PORT: bad }, 'env'))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(/^env\.PORT must /)
    })
  }

  for (const bad of [null, 'A=1', 5, ['A=1'], () => {}]) {
    it(`refuses ${typeof bad} ${String(bad)} in the place of the variables`, () => {
      expect(refusalOf(() => envChanges(bad, 'env')).message).toMatch(/^env must be an object, not /)
    })
  }
})

/** The environment as an object. */
function complete(changes: Record<string, string | undefined>, extend: boolean): Record<string, string> {
  const { names, values } = completeEnv(envChanges(changes, 'env'), extend)
  return Object.fromEntries(names.map((name, index) => [name, values[index] ?? '']))
}

describe('completeEnv', () => {
  it('extends the environment of this process, and removes undefined variables', () => {
    const env = complete({ NACRE_NEW: 'x', PATH: undefined }, true)
    const expected: Record<string, string | undefined> = { ...process.env, NACRE_NEW: 'x' }
    delete expected.PATH
    expect(env).toEqual(expected as Record<string, string>)
  })

  it('has PATH, HOME and LANG when it extends nothing', () => {
    const env = complete({ A: '1' }, false)
    expect(Object.keys(env).sort()).toEqual(['A', 'HOME', 'LANG', 'PATH'])
    expect(env.PATH).toContain('/usr/bin')
    expect(env.HOME).toMatch(/^\//)
  })

  it('lets the caller set and remove those three', () => {
    expect(complete({ PATH: '/x', HOME: undefined }, false)).toEqual({ PATH: '/x', LANG: 'C.UTF-8' })
  })
})
