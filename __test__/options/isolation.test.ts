import { describe, expect, it } from 'vitest'
import { isolation } from '../../lib/calls/isolation.js'
import { completeRules } from '../../lib/schema/isolation-rules.js'
import { refusalOf } from '../helpers/thrown.js'

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
    const open = { filesystem: defaults, network: 'host', processes: 'host', bestEffort: false }
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

  const mount = (source: string, target = '/b') => ({ source, target })
  const many = (count: number) => Array(count).fill('/a')
  const bad: Array<[value: unknown, message: RegExp]> = [
    ['Workspace', /^isolation must be rules or one of 'workspace', .*, not "Workspace"/],
    [null, /^isolation must/],
    [5, /^isolation must/],
    [[], /^isolation must/],
    [true, /^isolation must .*, not true: choose one of 'workspace'/],
    [false, /^isolation must .*, not false: leave it out/],
    [{ files: {} }, /isolation.*files/],
    [{ filesystem: 'all' }, /^isolation\.filesystem must/],
    [{ filesystem: { reads: [] } }, /isolation\.filesystem.*reads/],
    [{ filesystem: { read: 'none' } }, /^isolation\.filesystem\.read must be a list of paths/],
    [{ filesystem: { write: '/a' } }, /^isolation\.filesystem\.write must be a list of paths/],
    [{ filesystem: { write: [''] } }, /^isolation\.filesystem\.write\[0\] must be a path/],
    [{ filesystem: { hide: ['/a', '/b\0'] } }, /^isolation\.filesystem\.hide\[1\] must be a path/],
    [{ filesystem: { protect: [5] } }, /^isolation\.filesystem\.protect\[0\] must be a path, not 5/],
    [{ filesystem: { hide: many(201) } }, /^isolation\.filesystem\.hide must have at most 200 paths/],
    [{ filesystem: { hide: ['a'.repeat(4096)] } }, /^isolation\.filesystem\.hide\[0\] must be at most 4095/],
    [{ filesystem: { mounts: {} } }, /^isolation\.filesystem\.mounts must be a list of mounts like/],
    [{ filesystem: { mounts: ['/a'] } }, /^isolation\.filesystem\.mounts\[0\] must be an object, not "\/a"/],
    [{ filesystem: { mounts: [{ source: '/a' }] } }, /mounts\[0\] must have both source and target/],
    [{ filesystem: { mounts: [{ from: '/a' }] } }, /mounts\[0\] has no option "from"/],
    [{ filesystem: { mounts: [mount('a')] } }, /mounts\[0\]\.source must be an absolute path, not "a"/],
    [{ filesystem: { mounts: [mount('~/a')] } }, /mounts\[0\]\.source must be an absolute path/],
    [{ filesystem: { mounts: [mount('/a', './b')] } }, /mounts\[0\]\.target must be an absolute path/],
    [{ filesystem: { mounts: [mount('/a', '')] } }, /mounts\[0\]\.target must be a path/],
    [{ filesystem: { mounts: [mount('/a\0')] } }, /mounts\[0\]\.source must be a path/],
    [{ filesystem: { mounts: [mount(`/${'a'.repeat(4095)}`)] } }, /mounts\[0\]\.source must be at most 4095/],
    [{ filesystem: { mounts: Array(33).fill(mount('/a')) } }, /mounts must have at most 32 mounts/],
    [{ network: 'open' }, /^isolation\.network must be 'host', 'none' or \{ allow \}, not "open"/],
    [{ network: {} }, /^isolation\.network\.allow is required/],
    [{ network: { allow: 'a:1' } }, /^isolation\.network\.allow must be a list/],
    [
      { network: { allow: Array(201).fill('a:1') } },
      /^isolation\.network\.allow must be a list of at most 200/,
    ],
    [{ network: { allow: [], deny: ['a'] } }, /^isolation\.network\.deny\[0\] must be a host and a port/],
    [{ network: { allow: [], ask: 'yes' } }, /^isolation\.network\.ask must be true or false, not "yes"/],
    [{ network: { allow: [], ask: true, askTimeout: 0 } }, /^isolation\.network\.askTimeout must be /],
    [{ network: { allow: [], ask: true, askTimeout: 600_001 } }, /^isolation\.network\.askTimeout must be /],
    [{ processes: 'mine' }, /^isolation\.processes must be 'host' or 'own'/],
    [{ bestEffort: 1 }, /^isolation\.bestEffort must/],
  ]
  for (const [value, message] of bad) {
    it(`refuses ${JSON.stringify(value)?.slice(0, 60)}`, () => {
      const error = refusalOf(() => read(value))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(message)
    })
  }

  const hosts = [
    'a',
    'a:0',
    'a:65536',
    'a:',
    ':80',
    '*:80',
    '*.:80',
    'a b:80',
    'http://a:80',
    'a/b:80',
    'u@a:80',
  ]
  const unreadable = [
    '010.0.0.5:1',
    '10.0.0:1',
    '10.0.0.256:1',
    '10.0.0.5.:1',
    '2130706433:1',
    '0x7f.1:1',
    '*.0.0.5:1',
    '[1::2::3]:1',
    '[fe80:::1]:1',
    `${'a.'.repeat(126)}aa:1`,
  ]
  for (const host of [
    ...hosts,
    ...unreadable,
    '.a:80',
    '-a:80',
    'é.com:80',
    '::1:80',
    '[::1%eth0]:80',
    'a:8*',
    5,
    null,
  ]) {
    it(`refuses the host ${JSON.stringify(host)}`, () => {
      const error = refusalOf(() => read({ network: { allow: ['b:1', host] } }))
      expect(error.message).toMatch(/^isolation\.network\.allow\[1\] must be a host and a port like/)
    })
  }
})
