import { OptionError, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { refusalOf, thrownBy } from '../helpers/thrown.js'

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
    'a list': [['GET /**'], "must be an object of lists of rules like { 'api.example.com': ['GET /**'] }"],
    'a rule alone': [{ 'a.test': 'GET /**' }, "requests['a.test'] must be a list of at most 100 rules"],
    'an address': [{ '10.0.0.1': [] }, "must be the name of one host, like 'api.example.com'"],
    'a URL, with the name that it means': [{ 'https://a.test/x': [] }, "write 'a.test:443'"],
    'a wildcard': [{ '*.test': [] }, 'must be the name of one host'],
    'a host twice': [{ 'a.test': [], 'A.test:443': [] }, 'names the host a.test:443 twice'],
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

  const unreadable: Record<string, [rule: string, text: string]> = {
    'no path': ['GET', 'must be methods and a path'],
    'a path alone': ['/x', 'must be methods and a path'],
    'small letters': [
      'get /x',
      "must have * or methods in capitals with commas between them, like 'GET,HEAD'",
    ],
    'an unknown word': ['refuse GET /x', 'must be methods and a path'],
    'two blanks': ['deny  GET /x', 'must be methods and a path'],
    'a query': ['GET /x?y', 'has no query'],
    'a fragment': ['GET /x#y', 'has no query'],
    'a URL as path': ['GET https://a.test/x', 'must have a path that begins with /'],
    'another letter': ['GET /ü', 'must have a path'],
    'half a letter': ['GET /\ud800', 'must have a path'],
    'a blank in the path': ['GET /a b', 'must be methods and a path'],
    'a line break': ['GET /a\n', 'must have a path'],
    'a path that is never sent': ['GET /a/../b', "matches no request: write \"/a/../b\" without '.', '..'"],
    'a path with parameters': ['GET /a;b', 'matches no request'],
    'a long rule': [`GET /${'x'.repeat(252)}`, 'must have at most 256 bytes'],
  }
  for (const [name, [rule, text]] of Object.entries(unreadable))
    it(`refuse ${name} before anything starts`, () => {
      const network = { allow: [], requests: { 'a.test': ['GET /', rule] } }
      const error = thrownBy(() => new Sandbox({ isolation: { network } })) as OptionError
      expect(error).toBeInstanceOf(OptionError)
      expect(error.message).toContain(`isolation.network.requests['a.test:443'][1] `)
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
