import { describe, expect, it } from 'vitest'
import { completeEnv } from '../../lib/backends/native/plan/environment.js'
import { envChanges } from '../../lib/schema/env.js'

describe('envChanges', () => {
  it('turns variables into two lists, with null for unset ones', () => {
    expect(envChanges({ A: 'x', _b1: '', C: undefined }, 'env')).toEqual({
      names: ['A', '_b1', 'C'],
      values: ['x', '', null],
    })
  })
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
