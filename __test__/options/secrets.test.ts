import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { refusalOf } from '../helpers/thrown.js'

const VALUE = 'a-secret-of-some-length'
const read = (network: unknown) => isolation.read({ network }, 'isolation')
const withSecret = (secret: object, more: object = {}) =>
  read({ allow: [], secrets: { TOKEN: { value: VALUE, hosts: ['api.test'], ...secret }, ...more } })

describe('secrets', () => {
  it('have hosts in lower case, with the port of HTTPS unless they give one', () => {
    const hosts = ['Api.Test', 'a-b.c.test:8443', 'localhost:1']
    expect(withSecret({ hosts }).network).toMatchObject({
      secrets: { TOKEN: { hosts: ['api.test:443', 'a-b.c.test:8443', 'localhost:1'] } },
    })
    const places = ['authorization', 'body', { header: 'X-Key' }, { query: 'key' }]
    expect(withSecret({ in: places }).network).toMatchObject({ secrets: { TOKEN: { in: places } } })
    expect(read({ allow: [], secrets: {} }).network).toMatchObject({ secrets: {} })
  })

  const refused: Record<string, [secret: object, text: string | RegExp]> = {
    'a short value': [{ value: 'a-short' }, 'TOKEN.value must be text of 8 to 8192 characters'],
    'a value with a line break': [{ value: `${VALUE}\n` }, 'TOKEN.value must be text of 8 to 8192'],
    'a value with other letters': [{ value: `${VALUE}ü` }, 'TOKEN.value must be text of 8 to 8192'],
    'a value with a blank at its end': [{ value: `${VALUE} ` }, 'TOKEN.value must be text of 8 to 8192'],
    'a long value': [{ value: 'x'.repeat(8193) }, 'TOKEN.value must be text of 8 to 8192'],
    'no value': [{ value: undefined }, 'TOKEN must have both value and hosts'],
    'a function without a placeholder': [{ value: () => VALUE }, 'TOKEN.placeholder is required'],
    'a value in another member': [{ vlaue: VALUE }, 'did you mean "value"?'],
    'a wildcard': [{ hosts: ['*.test'] }, 'TOKEN.hosts[0] must be the name of one host'],
    'every port': [{ hosts: ['api.test:*'] }, 'TOKEN.hosts[0] must be the name of one host'],
    'an address': [{ hosts: ['10.0.0.1'] }, 'TOKEN.hosts[0] must be the name of one host'],
    'an IPv6 address': [{ hosts: ['[::1]:443'] }, 'TOKEN.hosts[0] must be the name of one host'],
    'a URL': [{ hosts: ['https://api.test/x'] }, 'TOKEN.hosts[0] must be the name of one host'],
    'no host': [{ hosts: [] }, 'TOKEN.hosts must name at least one host'],
    'no place': [{ in: [] }, 'TOKEN.in must name at least one place'],
    'no program': [{ programs: [] }, 'TOKEN.programs must name at least one program'],
    'a program without rules': [{ programs: [VALUE] }, 'TOKEN.programs must have keys of'],
    'a program of objects': [{ programs: ['toString'] }, 'TOKEN.programs must have keys of'],
    'an unknown place': [
      { in: ['header'] },
      "TOKEN.in[0] must be 'authorization', 'body', 'aws-signature', { header",
    ],
    'a header that frames requests': [
      { in: [{ header: 'Host' }] },
      'TOKEN.in[0].header must be the name of a header',
    ],
    'a header that is none': [{ in: [{ header: 'a b' }] }, 'TOKEN.in[0].header must be the name of a header'],
    'a parameter without a name': [
      { in: [{ query: '' }] },
      'TOKEN.in[0].query must be the name of a parameter',
    ],
    'a short placeholder': [
      { placeholder: 'x'.repeat(15) },
      'TOKEN.placeholder must have at least 16 letters',
    ],
    'a placeholder of marks': [
      { placeholder: '-'.repeat(20) },
      'TOKEN.placeholder must have at least 16 letters',
    ],
    'a placeholder with the value': [
      { placeholder: VALUE },
      'TOKEN.placeholder must have nothing of the value',
    ],
  }
  for (const [name, [secret, text]] of Object.entries(refused))
    it(`refuse ${name}, and show no value`, () => {
      const error = refusalOf(() => withSecret(secret))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toContain('isolation.network.secrets')
      expect(error.message).toContain(text)
      expect(inspect(error)).not.toContain(VALUE)
    })

  it('are not in the error when a value is in a wrong place', () => {
    const token = 'ghp_aB3aB3aB3aB3aB3aB3aB3'
    for (const secrets of [
      token,
      [token],
      { TOKEN: token },
      { TOKEN: [token] },
      { [`${token}-`]: {} },
      { TOKEN: { value: VALUE, hosts: token } },
      { TOKEN: { value: VALUE, hosts: [token] } },
      { TOKEN: { value: VALUE, hosts: [`https://${token}@api.test/`] } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], in: token } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], in: [token] } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], in: [{ header: `${token} ` }] } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], in: [{ [token]: 'x' }] } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], placeholder: `${token}!` } },
      { TOKEN: { value: VALUE, hosts: ['api.test'], [token]: 1 } },
      { TOKEN: { value: [token], hosts: ['api.test'] } },
    ]) {
      const error = refusalOf(() => read({ allow: [], secrets }))
      expect(inspect(error), inspect(secrets)).not.toContain('aB3aB3')
    }
  })

  it('refuse a placeholder that is a part of another', () => {
    const other = { value: 'another-value', hosts: ['b.test'], placeholder: 'a-longer-placeholder-of-it' }
    const error = refusalOf(() => withSecret({ placeholder: 'longer-placeholder' }, { OTHER: other }))
    expect(error.message).toContain('TOKEN.placeholder must not be a part of that of OTHER')
  })

  it('refuse names that no variable can have, or that the session needs', () => {
    for (const [name, rule] of [
      ['a-b', 'that no variable can have'],
      ['PATH', 'which the session needs'],
      ['https_proxy', 'which the session needs'],
    ] as const) {
      const secrets = { [name]: { value: VALUE, hosts: ['a.test'] } }
      expect(refusalOf(() => read({ allow: [], secrets })).message).toContain(rule)
    }
    const many = Object.fromEntries(
      [...Array(51).keys()].map((n) => [`T${n}`, { value: VALUE, hosts: ['a.test'] }]),
    )
    expect(refusalOf(() => read({ allow: [], secrets: many })).message).toContain('at most 50 secrets')
  })

  it('need a list of hosts', () => {
    const secrets = { TOKEN: { value: VALUE, hosts: ['api.test'] } }
    const error = refusalOf(() => read({ secrets }))
    expect(error.message).toContain(
      'isolation.network.allow is required: for the hosts of the secrets alone, write { allow: [], secrets }',
    )
  })
})

describe('authorities', () => {
  it('are certificates', () => {
    const pem = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n'
    expect(read({ allow: [], authorities: [pem, pem + pem] }).network).toMatchObject({
      authorities: [pem, pem + pem],
    })
    const key = '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n'
    for (const not of ['', 'AAAA', key, pem + key, '/etc/ssl/cert.pem', pem.slice(0, 40)]) {
      const error = refusalOf(() => read({ allow: [], authorities: [not] }))
      expect(error.message).toContain('authorities[0] must be certificates as PEM')
      expect(error.message).not.toContain('PRIVATE')
    }
  })
})
