import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { completeRules } from '../../lib/schema/isolation-rules.js'

const read = (value: unknown) => isolation.read(value, 'isolation')
const complete = (value: unknown) => completeRules(read(value))

describe('isolation', () => {
  it('leaves omitted rules open, so that they can be inherited', () => {
    expect(read({})).toEqual({})
    expect(read({ filesystem: {} })).toEqual({ filesystem: {} })
    expect(read('workspace')).toEqual({ preset: 'workspace' })
  })

  it('completes rules with their defaults', () => {
    const { hide } = complete({}).filesystem
    expect(hide).toEqual(expect.arrayContaining(['~/.ssh', '/etc/shadow']))
    const defaults = { read: 'all', write: ['.'], hide, protect: [], mounts: [] }
    const open = {
      filesystem: defaults,
      network: 'host',
      processes: 'host',
      bestEffort: false,
      explain: false,
      learn: false,
    }
    expect(complete({})).toEqual(open)
    expect(complete({ filesystem: {} })).toEqual(open)
    expect(complete({ filesystem: { read: [], hide: ['a b\n', '~/ü'] }, bestEffort: true })).toEqual({
      ...open,
      filesystem: { ...defaults, read: [], hide: ['a b\n', '~/ü'] },
      bestEffort: true,
    })
  })

  it('knows its presets, and changes to them', () => {
    expect(complete('workspace')).toMatchObject({ network: 'none', processes: 'own', bestEffort: false })
    expect(complete('workspace')).toMatchObject({ filesystem: { read: 'all', write: ['.'] } })
    expect(complete('workspace+network')).toMatchObject({ network: 'host', filesystem: { write: ['.'] } })
    expect(complete('read-only')).toMatchObject({ network: 'none', filesystem: { write: [] } })
    for (const preset of ['workspace', 'workspace+network', 'read-only'])
      expect(complete(preset).filesystem.hide).toEqual(expect.arrayContaining(['~/.ssh', '/etc/shadow']))
    const network = { allow: ['example.com:443'] }
    expect(complete({ preset: 'workspace', network })).toEqual({ ...complete('workspace'), network })
  })

  it('takes hosts with ports, in lower case', () => {
    const allow = [
      'Example.com:443',
      '*.example.com:*',
      '127.0.0.1:1',
      '[2001:DB8::1]:65535',
      'local_host:80',
    ]
    expect(read({ network: { allow } }).network).toEqual({ allow: allow.map((one) => one.toLowerCase()) })
    expect(read({ network: { allow: [] } }).network).toEqual({ allow: [] })
    const more = { allow: [], deny: ['a:1'], ask: true, askTimeout: 600_000 }
    expect(read({ network: more }).network).toEqual(more)
  })
})
