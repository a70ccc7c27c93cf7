/** Rules of a session against those of its sandbox. */
import { describe, expect, it } from 'vitest'
import { stricter } from '../../lib/backends/native/plan/strictness.js'
import type { NativeIsolation } from '../../lib/boundary/index.js'
import { refusalOf } from '../helpers/thrown.js'

const open: NativeIsolation = {
  read: undefined,
  write: [],
  hide: [],
  protect: [],
  mounts: [],
  network: 'open',
  allow: [],
  deny: [],
  ask: undefined,
  programs: [],
  secrets: [],
  requests: [],
  handlers: [],
  authorities: [],
  ownProcesses: false,
  bestEffort: false,
  explain: false,
  learn: false,
  guarding: 'off',
  privateCaches: false,
}
const proxy = (...allow: string[]) => ({ network: 'proxy' as const, allow })
const secret = (more: object = {}) => [
  {
    name: 'A',
    value: 'a',
    placeholder: 'p',
    hosts: ['a:1', 'b:1'],
    places: ['authorization', 'body'],
    programs: [],
    ...more,
  },
]

const program = (name: string, allow: string[], files: string[] = []) => [{ name, allow, files }]

type Pair = [sandbox: Partial<NativeIsolation>, session: Partial<NativeIsolation>]

const accepted: Record<string, Pair> = {
  'the same rules': [
    { write: ['/w'], hide: ['/s'] },
    { write: ['/w'], hide: ['/s'] },
  ],
  'a part of a writable tree': [{ write: ['/w'] }, { write: ['/w/a'] }],
  'a list below a sandbox that reads everything': [{}, { read: ['/a'] }],
  'what the sandbox may write, as readable': [{ read: ['/a'], write: ['/w'] }, { read: ['/w/b'] }],
  'a wider tree hidden': [{ hide: ['/s/a'] }, { hide: ['/s'] }],
  'nothing hidden where nothing is opened': [{ hide: ['/s'] }, { read: ['/a'] }],
  'a protected tree that is hidden': [
    { write: ['/w'], protect: ['/w/p'] },
    { write: ['/w'], hide: ['/w/p'] },
  ],
  'a protected tree outside of what is writable': [{ write: ['/w'], protect: ['/w/p'] }, { write: ['/w/a'] }],
  'no network below a list': [proxy('a:1'), { network: 'closed' }],
  'a list below the whole network': [{}, proxy('a:1')],
  'a host of a wildcard': [proxy('*.a:1', 'b:*'), proxy('x.a:1', '*.y.a:1', 'b:9')],
  'a host that the sandbox asks for, as a question': [
    { ...proxy('a:1'), ask: 1 },
    { ...proxy('a:1'), ask: 2 },
  ],
  'fewer hosts and places of a secret, or another secret': [
    { ...proxy('a:1', 'b:1'), secrets: secret() },
    { ...proxy('a:1'), secrets: [...secret({ hosts: ['a:1'], places: ['body'] }), ...secret({ name: 'B' })] },
  ],
  'fewer hosts of a program, and those that all may reach': [
    { ...proxy('a:1'), programs: program('git', ['b:1', '*.c:1']) },
    { ...proxy(), programs: [...program('git', ['x.c:1']), ...program('curl', ['a:1'])] },
  ],
  'a secret for fewer programs': [
    { ...proxy('a:1'), secrets: secret({ programs: ['git', 'curl'] }) },
    { ...proxy('a:1'), secrets: secret({ programs: ['git'] }) },
  ],
  'best effort as the sandbox has it': [{ bestEffort: true }, { bestEffort: true }],
}

const refused: Record<string, [...Pair, rule: string]> = {
  'questions below a list': [proxy('a:1'), { ...proxy('a:1'), ask: 1 }, 'network'],
  'a host that the sandbox asks for': [{ ...proxy('a:1'), ask: 1 }, proxy('b:1'), 'network'],
  'another writable tree': [{ write: ['/w'] }, { write: ['/x'] }, 'filesystem.write'],
  'a parent': [{ write: ['/w/a'] }, { write: ['/w'] }, 'filesystem.write'],
  'a tree whose name only begins alike': [{ write: ['/w'] }, { write: ['/wide'] }, 'filesystem.write'],
  'another case of letters': [{ write: ['/w'] }, { write: ['/W'] }, 'filesystem.write'],
  'everything readable': [{ read: ['/a'] }, {}, 'filesystem.read'],
  'another readable tree': [{ read: ['/a'] }, { read: ['/b'] }, 'filesystem.read'],
  'the root': [{ read: ['/a'] }, { read: ['/'] }, 'filesystem.read'],
  'a hidden tree': [{ hide: ['/s'] }, {}, 'filesystem.hide'],
  'a part of a hidden tree only': [{ hide: ['/s'] }, { hide: ['/s/a'] }, 'filesystem.hide'],
  'a hidden tree below a readable one': [{ hide: ['/a/s'] }, { read: ['/a'] }, 'filesystem.hide'],
  'a hidden tree below a writable one': [
    { write: ['/w'], hide: ['/w/s'] },
    { read: ['/a'], write: ['/w'] },
    'filesystem.hide',
  ],
  'a readable part of a hidden tree': [{ hide: ['/s'] }, { read: ['/s/a'] }, 'filesystem.hide'],
  'a protected tree': [{ write: ['/w'], protect: ['/w/p'] }, { write: ['/w'] }, 'filesystem.protect'],
  'the network': [{ network: 'closed' }, {}, 'network'],
  'a list below no network': [{ network: 'closed' }, proxy(), 'network'],
  'another host': [proxy('a:1'), proxy('b:1'), 'network'],
  'another port': [proxy('a:1'), proxy('a:2'), 'network'],
  'every port': [proxy('a:1'), proxy('a:*'), 'network'],
  'the domain of a wildcard itself': [proxy('*.a:1'), proxy('a:1'), 'network'],
  'a host that ends alike': [proxy('*.a:1'), proxy('ba:1'), 'network'],
  'a wildcard below a host': [proxy('x.a:1'), proxy('*.x.a:1'), 'network'],
  'another host of a secret': [
    { ...proxy('a:1', 'c:1'), secrets: secret() },
    { ...proxy('a:1'), secrets: secret({ hosts: ['c:1'] }) },
    'network.secrets',
  ],
  'another place of a secret': [
    { ...proxy('a:1'), secrets: secret() },
    { ...proxy('a:1'), secrets: secret({ places: ['query:a'] }) },
    'network.secrets',
  ],
  'another host of a program': [
    { ...proxy('a:1'), programs: program('git', ['b:1']) },
    { ...proxy('a:1'), programs: program('git', ['c:1']) },
    'network.programs',
  ],
  'the hosts of a program for all': [
    { ...proxy('a:1'), programs: program('git', ['b:1']) },
    proxy('b:1'),
    'network',
  ],
  'the hosts of a program for another one': [
    { ...proxy('a:1'), programs: program('git', ['b:1']) },
    { ...proxy('a:1'), programs: program('curl', ['b:1']) },
    'network.programs',
  ],
  'other files as a program': [
    { ...proxy('a:1'), programs: program('git', ['b:1'], ['/usr/bin/git']) },
    { ...proxy('a:1'), programs: program('git', ['b:1'], ['/usr/bin/perl']) },
    'network.programs',
  ],
  'a secret of a program for all': [
    { ...proxy('a:1'), secrets: secret({ programs: ['git'] }) },
    { ...proxy('a:1'), secrets: secret() },
    'network.secrets',
  ],
  'a secret of a program for another one': [
    { ...proxy('a:1'), secrets: secret({ programs: ['git'] }) },
    { ...proxy('a:1'), secrets: secret({ programs: ['curl'] }) },
    'network.secrets',
  ],
  'another authority': [proxy('a:1'), { ...proxy('a:1'), authorities: ['x'] }, 'network.authorities'],
  'the processes of others': [{ ownProcesses: true }, {}, 'processes'],
  'rules that refuse nothing': [{}, { learn: true }, 'learn'],
  'best effort': [{}, { bestEffort: true }, 'bestEffort'],
}

describe('a session', () => {
  for (const [name, [sandbox, session]] of Object.entries(accepted)) {
    it(`may have ${name}`, () => {
      const rules = stricter({ ...open, ...session }, { ...open, ...sandbox })
      expect(rules).toMatchObject({
        ...open,
        ...session,
        hide: expect.any(Array),
        protect: expect.any(Array),
      })
    })
  }

  for (const [name, [sandbox, session, rule]] of Object.entries(refused)) {
    it(`may not have ${name}`, () => {
      const error = refusalOf(() => stricter({ ...open, ...session }, { ...open, ...sandbox }))
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toMatch(`isolation.${rule} of a session must be as strict`)
    })
  }

  it('keeps what its sandbox denies', () => {
    const rules = stricter(
      { ...open, ...proxy(), deny: ['b:1'] },
      { ...open, ...proxy('*.a:1'), deny: ['x.a:1'] },
    )
    expect(rules.deny).toEqual(['b:1', 'x.a:1'])
  })

  it('keeps what its sandbox hides and protects, once each', () => {
    const sandbox = { ...open, hide: ['/s', '/t'], protect: ['/p'] }
    const rules = stricter({ ...open, read: ['/a'], hide: ['/s', '/u'] }, sandbox)
    expect(rules).toMatchObject({ hide: ['/s', '/u', '/t'], protect: ['/p'] })
  })
})
