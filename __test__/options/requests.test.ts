import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { refusalOf } from '../helpers/thrown.js'

const read = (requests: unknown, more: object = {}) =>
  isolation.read({ network: { allow: [], requests, ...more } }, 'isolation')

describe('rules for requests', () => {
  it('have hosts in lower case, with the port of HTTPS unless they give one', () => {
    const rules = ['GET,HEAD /a/**', 'deny DELETE /**', 'allow * /v1/*', 'M-SEARCH /$x+(y)!~']
    expect(read({ 'Api.Test': rules, 'b.test:8443': [] }).network).toMatchObject({
      requests: { 'api.test:443': rules, 'b.test:8443': [] },
    })
    expect(read({ 'a.test': undefined }).network).toMatchObject({ requests: {} })
    expect(read({ 'a.test': ['ask POST /**'] }, { ask: true }).network).toMatchObject({ ask: true })
  })

  const refused: Record<string, [requests: unknown, text: string]> = {
    'a list': [['GET /**'], "must be an object like { 'api.example.com': ['GET /**'] }"],
    'a rule alone': [{ 'a.test': 'GET /**' }, "requests['a.test'] must be a list of at most 100 rules"],
    'an address': [{ '10.0.0.1': [] }, "must be the name of one host, like 'api.example.com'"],
    'a URL, with the name that it means': [{ 'https://a.test/x': [] }, "write 'a.test:443'"],
    'a wildcard': [{ '*.test': [] }, 'must be the name of one host'],
    'a host twice': [{ 'a.test': [], 'A.test:443': [] }, 'names the host a.test:443 twice'],
    'no path': [{ 'a.test': ['GET'] }, "requests['a.test'][0] must be methods and a path"],
    'a path alone': [{ 'a.test': ['/x'] }, 'must be methods and a path'],
    'small letters': [{ 'a.test': ['get /x'] }, 'must be methods and a path'],
    'an unknown word': [{ 'a.test': ['refuse GET /x'] }, 'must be methods and a path'],
    'a query': [{ 'a.test': ['GET /x?y'] }, 'without a query'],
    'a fragment': [{ 'a.test': ['GET /x#y'] }, 'without a query'],
    'a URL as path': [{ 'a.test': ['GET https://a.test/x'] }, 'must be methods and a path'],
    'another letter': [{ 'a.test': ['GET /ü'] }, 'must be methods and a path'],
    'a blank in the path': [{ 'a.test': ['GET /a b'] }, 'must be methods and a path'],
    'a line break': [{ 'a.test': ['GET /a\n'] }, 'must be methods and a path'],
    'a long rule': [{ 'a.test': [`GET /${'x'.repeat(252)}`] }, 'at most 256 characters'],
    'too many rules': [{ 'a.test': Array(101).fill('GET /') }, 'at most 100 rules'],
    'too many hosts': [
      Object.fromEntries([...Array(51).keys()].map((n) => [`h${n}.test`, []])),
      'must have at most 50 hosts',
    ],
  }
  for (const [name, [requests, text]] of Object.entries(refused))
    it(`refuse ${name}`, () => {
      const error = refusalOf(() => read(requests))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toContain(text)
    })

  it('that ask need something that answers', () => {
    const error = refusalOf(() => read({ 'a.test': ['ask POST /x'] }))
    expect(error.message).toContain("isolation.network.ask is required for the rule 'ask POST /x'")
  })

  it('need a list of hosts', () => {
    const error = refusalOf(() => isolation.read({ network: { requests: {} } }, 'isolation'))
    expect(error.message).toContain('for these hosts alone, write { allow: [], requests }')
  })
})
