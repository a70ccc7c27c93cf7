import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { refusalOf } from '../helpers/thrown.js'

const read = (programs: unknown) => isolation.read({ network: { allow: [], programs } }, 'isolation')

describe('programs', () => {
  it('have names or absolute paths, and hosts in lower case', () => {
    const programs = {
      git: { allow: ['GitHub.com:443'] },
      '/opt/a b/tool': { allow: [], files: ['/opt/a b/tool'] },
    }
    expect(read(programs).network).toMatchObject({
      programs: { ...programs, git: { allow: ['github.com:443'] } },
    })
    expect(read({ git: undefined }).network).toMatchObject({ programs: {} })
  })

  it.each(['', '.', '..', 'bin/git', './git', 'a b', 'a\0', '/a\0', 'a'.repeat(256)])(
    'refuse the name %j',
    (name) => {
      const error = refusalOf(() => read({ [name]: { allow: [] } }))
      expect(error.message).toContain(
        'a key of isolation.network.programs must be the name or the absolute path',
      )
    },
  )

  it('need allow', () => {
    const error = refusalOf(() => isolation.read({ network: { programs: {} } }, 'isolation'))
    expect(error.message).toBe(
      'isolation.network.allow is required: for the hosts of the programs alone, write { allow: [], programs }',
    )
  })
})
