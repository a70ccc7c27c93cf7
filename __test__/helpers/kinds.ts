/**
 * Right and wrong values for every kind of option, written by hand: the refusal tests (options/refusals.test.ts) apply
 * them to each option of each call. An option is recognized by its documented bounds, so a new option of a known kind needs
 * nothing here, and a new kind needs an entry.
 */
import { Readable } from 'node:stream'

export interface Wrong {
  value: unknown
  /** What the message says after the name of the option. */
  message: RegExp
  code: string
  /** It is right in JSON. */
  isRightInJson?: true
}

export interface Cases {
  right: readonly unknown[]
  wrong: readonly Wrong[]
  /** Messages must not show the value. */
  isSecret?: true
}

/** Values that break the same rule. */
export function not(message: RegExp, values: readonly unknown[], code = 'INVALID_OPTION'): Wrong[] {
  return values.map((value) => ({ value, message, code }))
}

/** Values that each break a rule of their own. */
function each(...cases: Array<[value: unknown, message: RegExp, code?: string]>): Wrong[] {
  return cases.map(([value, message, code = 'INVALID_OPTION']) => ({ value, message, code }))
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
const x = (count: number) => 'x'.repeat(count)
const many = (count: number, item: unknown = '/a') => Array(count).fill(item)

const NO_TEXT = [5, 5n, null, true, {}, ['x'], () => 'x', Symbol('x'), new String('x')]
const NO_OBJECT = ['x', 5, null, [], () => {}]
const NO_OBJECT_RULE = not(/^ must be an object, not /, NO_OBJECT)

/** Text with a rule, and nothing of another type. */
function text(rule: RegExp, right: string[], wrong: string[], code?: string): Cases {
  return { right, wrong: not(rule, [...wrong, ...NO_TEXT], code) }
}

/** A whole number, or a time, which may have a fraction. */
function range(least: number, most: number, unit: string): Cases {
  const isTime = unit === ' ms' && most === 2_147_483_647 && least <= 1
  const isSize = unit === ' bytes' && most === Number.MAX_SAFE_INTEGER && least === 0
  const what = isTime ? 'number of milliseconds' : `whole number${isSize ? ' of bytes' : ''}`
  const wrong = [isTime ? least - 1 : least + 0.5, least - 1, most + 1, Number.NaN, Infinity, -Infinity]
  const remedies: Wrong[] = []
  if (isTime) remedies.push(...each(['10s', / not "10s"; 10 seconds are 10000$/]))
  if (unit === ' bytes') remedies.push(...each(['1GB', / not "1GB"; 1 GiB is 1073741824$/]))
  return {
    right: [least, most, ...(isTime ? [0.5, 1500.2] : [])],
    wrong: [
      ...not(new RegExp(`^ must be a ${what} from ${least} to ${most}, not `), [
        ...wrong,
        ...[String(least), BigInt(least), null, true, [], {}],
      ]),
      ...remedies,
    ],
  }
}

/** One of a few words. */
function words(list: string[]): Cases {
  const rule = new RegExp(`^ must be .*${list.map((word) => `'${escaped(word)}'`).join('.*')}.*, not `)
  return { right: list, wrong: not(rule, [...list.map((word) => `${word} `), '', null, 5, list, {}]) }
}

/** An id of a few characters, which can become a file name. */
function id(most: number, more: string): Cases {
  const others = more === ' : { }'
  const isPath = most === 128 ? ['.', '..'] : []
  const isNumber = more.includes('whole number') ? ['12', '-5', '0'] : []
  const bad = ['../../x', '', x(most + 1), 'a/b', 'a\0', 'a b', 'ä', 'a\n', 'a\\b', '~', '$(id)']
  const cases = text(
    new RegExp(`^ must be 1 to ${most} characters of A-Z a-z 0-9 \\. _ -`),
    ['a', 'A-b_c.9', '.hidden', x(most), ...(others ? ['a:{b}'] : [])],
    [...bad, ...isPath, ...isNumber, ...(others ? [] : ['a:b'])],
    others ? 'INVALID_OPTION' : 'INVALID_ID',
  )
  if (isNumber.length === 0) return cases
  const reserved = each(['wait', /^ must not be 'wait', which BullMQ uses itself$/, 'INVALID_ID'])
  return { ...cases, wrong: [...cases.wrong, ...reserved] }
}

/** A number greater than 0. */
function positive(rule: RegExp, most: number, above: number): Cases {
  return { right: [0.001, 1, most], wrong: not(rule, [0, -1, above, Number.NaN, '1', 1n, null, true, {}]) }
}

/** A list with a bound, whose items are checked by their places. */
function list(most: number, what: string, right: unknown[], item: Wrong[]): Cases {
  return {
    right: [[], ...right, many(most, (right[0] as unknown[])[0])],
    wrong: [
      ...not(new RegExp(`^ must be a list of ${what}.*, not `), ['/a', {}, null, 5, true]),
      ...each([
        many(most + 1, (right[0] as unknown[])[0]),
        new RegExp(`^ must have at most ${most} ${what}$`),
      ]),
      ...item,
    ],
  }
}

const BAD_NAMES = ['', 'A=B', '1A', 'A B', 'A-B', 'A\0', 'Ä', 'A\n', '__proto__ ', 'BASH_FUNC_f%%', '$(id)']
const BAD_VALUES = ['a\0b', 5, true, {}, ['x'], () => {}]

/** Variables by name. `nameRule` says what is wrong with a name. */
function variables(nameRule: (name: string) => RegExp, right: object[], wrong: unknown[]): Cases {
  return {
    right: [{ A: 'x', _b1: '', C: undefined, D: ' \n\t"\'$(){}=' }, {}, Object.create(null), ...right],
    wrong: [
      ...NO_OBJECT_RULE,
      ...BAD_NAMES.map((name) => ({
        value: { [name]: 'x' },
        message: nameRule(name),
        code: 'INVALID_ENV_NAME',
      })),
      ...[...BAD_VALUES, ...wrong].map((value) => ({
        value: { FINE: 'x', PORT: value },
        message: /^\.PORT must (not contain a NUL character$|be a string or undefined, not )/,
        code: 'INVALID_OPTION',
        ...(value === null && { isRightInJson: true as const }),
      })),
    ],
  }
}

const containerName = (name: string) => new RegExp(`^Invalid environment variable name: ${escaped(name)}$`)

async function* generate() {
  yield 'x'
}
const INPUT_RULE = /^ must be a string, a Uint8Array, an async iterable or a ReadableStream, not /
const NO_INPUT = [null, 5, true, {}, ['x'], new ArrayBuffer(1), new Uint16Array(1), new Set(['x']), () => 'x']
const BYTES = new Uint8Array([0, 255])

const NO_URL = ['', '127.0.0.1:80', 'ftp://secret', 'http://u:secret@x', 'http://x?secret', 'http://x#secret']

const HOST_RULE = /^\[1\] must be a host and a port like 'example\.com:443'/
const NO_HOSTS = [
  ...[
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
    '.a:80',
  ],
  ...[
    '-a:80',
    'é.com:80',
    '::1:80',
    '[::1%eth0]:80',
    'a:8*',
    '010.0.0.5:1',
    '10.0.0:1',
    '10.0.0.256:1',
    5,
    null,
  ],
  ...['10.0.0.5.:1', '2130706433:1', '0x7f.1:1', '*.0.0.5:1', '[1::2::3]:1', '[fe80:::1]:1'],
  `${'a.'.repeat(126)}aa:1`,
]

const callback: Cases = {
  right: [() => {}],
  wrong: not(/^ must be a function/, ['log', {}, null, 1, true, []]),
}
const directory = text(/^ must be a path or a file: URL, not /, ['/a b', '../x', '~'], [])
const label: Cases = text(/^ must be a non-empty string, not /, ['x', '../../x', 'ä b'], [''], 'INVALID_ID')

/** Kinds by their documented bounds. The first that matches counts. */
const kinds: Array<
  [bounds: string | RegExp, cases: Cases | ((whole: string, ...groups: string[]) => Cases)]
> = [
  ['anything', { right: [5, null, 'x', {}], wrong: [] }],
  [
    'true or false',
    {
      right: [true, false],
      wrong: not(/^ must be true or false, not /, [0, 1, 'true', 'yes', null, [], {}]),
    },
  ],
  [
    /^(\d+) to (\d+|Number\.MAX_SAFE_INTEGER)( ms| bytes| \(0o7777\))?$/,
    (_, least = '', most = '', unit = '') =>
      range(Number(least), /^\d/.test(most) ? Number(most) : Number.MAX_SAFE_INTEGER, unit),
  ],
  ['a function', callback],
  ['a function like fetch', callback],
  [
    'an AbortSignal',
    {
      right: [
        new AbortController().signal,
        { aborted: false, addEventListener() {}, removeEventListener() {} },
      ],
      wrong: not(/^ must be an AbortSignal, not /, [
        ...[null, 'SIGTERM', 15, {}, { aborted: false }, new AbortController(), new EventTarget()],
      ]),
    },
  ],
  [
    'a name like SIGTERM, or 1 to 64',
    {
      right: ['SIGTERM', 'SIGKILL', 1, 64],
      wrong: not(/^ must be the name of a signal like 'SIGTERM' or a number from 1 to 64, not /, [
        ...['SIGFOO', 'TERM', 'sigterm', '', '15', 'toString', 0, -1, 65, 99, 1.5, Number.NaN, null, {}, []],
      ]),
    },
  ],
  [/^1 to (\d+) of A-Z a-z 0-9 \. _ -(.*)$/, (_, most = '', more = '') => id(Number(most), more)],
  ['non-empty text', label],
  [
    '1 to 256 characters, no control characters',
    text(
      /^ must be 1 to 256 characters without control/,
      ['a', 'ä b', x(256)],
      ['', x(257), 'a\nb', 'a\0', '\x7f'],
    ),
  ],
  ['1 to 1000 characters', text(/^ must be 1 to 1000 characters, not /, ['a', x(1000)], ['', x(1001)])],
  ['a text that is not empty', text(/^ must be a text that is not empty, not /, ['a'], [''])],
  [
    'a path or a file: URL',
    {
      right: [...directory.right, new URL('file:///a%20b/')],
      wrong: [
        ...not(/^ must be a path or a file: URL/, ['', 'a\0b', ...NO_TEXT]),
        ...not(/^ must be a path or a file: URL, not /, [
          ...[
            new URL('http://x/'),
            new URL('file://host/x'),
            new URL('file:///a%2Fb'),
            new URL('file:///a%FF'),
          ],
        ]),
        ...not(/^ must be a path or a file: URL/, [new URL('file:///a%00b')]),
      ],
    },
  ],
  [
    'a path',
    {
      right: ['/bin/bash', 'a b', '../x'],
      wrong: not(/^ must be a path, not empty and without NUL characters, not /, [
        ...['', '/bin/ba\0sh', new URL('file:///bin/bash'), ...NO_TEXT],
      ]),
    },
  ],
  [
    'an absolute path without control characters',
    text(
      /^ must be an absolute path without control/,
      ['/', '/a b/', '/ä'],
      ['', 'jobs', './a', '/a\nb', '/a\0'],
    ),
  ],
  [
    'strings by name; undefined unsets',
    variables(
      (name) => new RegExp(`^ has the name ${escaped(JSON.stringify(name))}, which does not match `),
      [],
      [null],
    ),
  ],
  ['strings by name; undefined and null unset', variables(containerName, [{ A: null }], [])],
  ['strings by name; undefined and null are skipped', variables(containerName, [{ A: null }], [])],
  [
    "text, bytes, an iterable of them, or 'pipe'",
    {
      right: ['aü', BYTES, 'pipe', generate(), Readable.from(['x']), new Blob(['x']).stream()],
      wrong: not(INPUT_RULE, NO_INPUT),
    },
  ],
  [
    "text, bytes or 'pipe'",
    {
      right: ['aü', BYTES, 'pipe'],
      wrong: [
        ...not(INPUT_RULE, NO_INPUT),
        ...not(/^ of a service must be a string, a Uint8Array or 'pipe'$/, [
          new Blob(['x']).stream(),
          generate(),
        ]),
      ],
    },
  ],
  [
    'text or bytes',
    {
      right: ['aü', '', BYTES],
      wrong: not(/^ must give strings or Uint8Arrays, not /, [...NO_INPUT, generate()]),
    },
  ],
  [
    'shell text or a list of arguments',
    {
      right: ['ls', ' ls\n', '# only a comment', ';', 'if', x(2 ** 21), ['echo', '', 'a b', '$x\n']],
      wrong: [
        ...not(/^ must not be blank$/, ['', ' ', '\t\r\n'], 'INVALID_COMMAND'),
        ...not(/^ must not contain a NUL character/, ['a\0b', ['a\0'], ['echo', 'a\0b']], 'INVALID_COMMAND'),
        ...not(/^ must have at least one argument, the program$/, [[]], 'INVALID_COMMAND'),
        ...not(/^ must name a program; \[0\] is empty$/, [[''], ['', 'x']], 'INVALID_COMMAND'),
        ...not(
          /^ must have strings only; \[\d\] is /,
          [['echo', 5], new Array(2), [null]],
          'INVALID_COMMAND',
        ),
        ...not(
          /^ must be shell text or a list of arguments, not /,
          [null, 5, {}, { length: 1, 0: 'ls' }, () => 'ls', new Set(['ls'])],
          'INVALID_COMMAND',
        ),
      ],
    },
  ],
  [
    'true for 80 x 24, or { cols, rows }',
    {
      right: [true, false, { cols: 1, rows: 1 }, { cols: 65_535, rows: 65_535 }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...not(/^ must have both cols and rows$/, [{}, { cols: 80 }, { rows: 24 }]),
        ...each(
          [{ cols: 0, rows: 1 }, /^\.cols must be a whole number from 1 to 65535, not 0$/],
          [{ cols: 1, rows: 65_536 }, /^\.rows must be a whole number from 1 to 65535, not 65536$/],
          [{ cols: 1, row: 1 }, /^ has no option "row"; did you mean "rows"\? It has: cols, rows$/],
        ),
      ],
    },
  ],
  [
    'an object of limits',
    {
      right: [{}, { memory: 1, cpus: 0.5, pids: 2, openFiles: 3 }, { memory: undefined }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...each(
          [{ memory: 0 }, /^\.memory must be a whole number from 1 to 9007199254740991, not 0$/],
          [{ memory: '1GB' }, /^\.memory .* not "1GB"; 1 GiB is 1073741824$/],
          [{ cpus: Infinity }, /^\.cpus must be a number of processors greater than 0, not Infinity$/],
          [{ pids: 2 ** 32 }, /^\.pids must be a whole number from 1 to 4294967295, not 4294967296$/],
          [
            { mem: 1 },
            /^ has no option "mem"; did you mean "memory"\? It has: memory, cpus, pids, openFiles$/,
          ],
          [{ files: 1 }, /^ has no option "files"; it has: memory/],
        ),
      ],
    },
  ],
  [
    'a name, or { uid, gid }',
    {
      right: ['root', { uid: 0, gid: 0 }, { uid: 4_294_967_294, gid: 1 }],
      wrong: [
        ...not(/^ must be the name of a user or \{ uid, gid \}, not /, ['', 'a\0', 'a:b', 'a\nb']),
        ...not(/^ must be an object, not /, [5, null, [], true]),
        ...each(
          [{ uid: 1 }, /^ must have both uid and gid$/],
          [
            { uid: 2 ** 32 - 1, gid: 0 },
            /^\.uid must be a whole number from 0 to 4294967294, not 4294967295$/,
          ],
          [{ uid: 0, gid: '0' }, /^\.gid must be a whole number from 0 to 4294967294, not "0"$/],
        ),
      ],
    },
  ],
  [
    "'workspace', 'workspace+network', 'read-only' or rules",
    {
      right: ['workspace', 'workspace+network', 'read-only', {}, { filesystem: {}, network: 'none' }],
      wrong: [
        ...not(/^ must be rules or one of 'workspace', 'workspace\+network', 'read-only', not "/, [
          'Workspace',
          '',
        ]),
        ...not(/^ must be an object, not /, [null, 5, []]),
        ...each(
          [
            true,
            /^ must be rules or the name of a preset, not true: choose one of 'workspace'.*, or give rules$/,
          ],
          [false, /^ must be rules or the name of a preset, not false: leave it out for no restrictions$/],
          [{ net: 'none' }, /^ has no option "net"; did you mean "network"\? It has: preset, filesystem/],
          [{ filesystem: { hide: ['/a', '/b\0'] } }, /^\.filesystem\.hide\[1\] must be a path, not /],
          [{ network: false }, /^\.network must be 'host', 'none' or \{ allow \}, not false$/],
        ),
      ],
    },
  ],
  [
    'an object of lists',
    {
      right: [{}, { read: 'all', write: [] }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...each([{ reads: [] }, /^ has no option "reads"; did you mean "read"\? It has: read, write, hide/]),
      ],
    },
  ],
  [
    /^('all', or )?at most (\d+) paths$/,
    (_, all = '', most = '') =>
      list(
        Number(most),
        'paths',
        [['/a b\n', '~/ü', '.'], ...(all ? ['all'] : [])],
        [
          ...each(
            [[''], /^\[0\] must be a path/],
            [['/a', '/b\0'], /^\[1\] must be a path/],
            [[5], /^\[0\] must be a path.*, not 5$/],
            [[['/a']], /^\[0\] must be a path.*, not an array$/],
          ),
          ...(most === '200' ? each([[x(4096)], /^\[0\] must be at most 4095 characters long$/]) : []),
        ],
      ),
  ],
  [
    'at most 32 like { source, target }',
    list(
      32,
      'mounts',
      [[{ source: '/a', target: '/b' }]],
      [
        ...each(
          [['/a'], /^\[0\] must be an object, not "\/a"$/],
          [[{ source: '/a' }], /^\[0\] must have both source and target$/],
          [[{ from: '/a' }], /^\[0\] has no option "from"; it has: source, target$/],
          [[{ source: 'a', target: '/b' }], /^\[0\]\.source must be an absolute path, not "a"$/],
        ),
      ],
    ),
  ],
  [
    'at most 100 like { source, readOnly }',
    list(
      100,
      'mounts',
      [[{ source: '/a', readOnly: true }]],
      [
        ...each(
          [['/a'], /^\[0\] must be an object, not "\/a"$/],
          [[{}], /^\[0\]\.source is required$/],
          [[{ source: '/a', readonly: true }], /^\[0\] has no option "readonly"; did you mean "readOnly"\?/],
        ),
      ],
    ),
  ],
  [
    "at most 200 like 'example.com:443' or '*.example.com:443'",
    {
      right: [
        [],
        ['Example.com:443', '*.example.com:*', '127.0.0.1:1', '[2001:DB8::1]:65535', 'local_host:80'],
        many(200, 'a:1'),
      ],
      wrong: [
        ...not(/^ must be a list of at most 200 hosts, not /, ['a:1', {}, null, many(201, 'a:1')]),
        ...NO_HOSTS.map((host) => ({ value: ['b:1', host], message: HOST_RULE, code: 'INVALID_OPTION' })),
      ],
    },
  ],
  [
    'true, false or a function',
    {
      right: [true, false, () => 'once'],
      wrong: not(/^ must be true or false, not /, ['yes', 1, null, {}, []]),
    },
  ],
  [
    "'host', 'none' or { allow }",
    {
      right: ['host', 'none', { allow: [] }, { allow: [], deny: ['a:1'], ask: true, askTimeout: 600_000 }],
      wrong: [
        ...not(/^ must be 'host', 'none' or \{ allow \}, not /, ['open', '', null, 5, [], true]),
        ...each(
          [{}, /^\.allow is required$/],
          [{ allow: 'a:1' }, /^\.allow must be a list of at most 200 hosts, not "a:1"$/],
          [
            { allow: [], asks: true },
            /^ has no option "asks"; did you mean "ask"\? It has: allow, deny, ask/,
          ],
        ),
      ],
    },
  ],
  [
    "'direct', 'copy-on-write' or an object",
    {
      right: ['direct', 'copy-on-write', { mode: 'copy-on-write' }],
      wrong: [
        ...not(/^ must be 'direct', 'copy-on-write' or \{ mode: 'copy-on-write' \}, not /, [
          ...['overlay', true, null, 5, []],
        ]),
        ...each(
          [{}, /^\.mode is required$/],
          [{ path: '.' }, /^\.mode is required$/],
          [{ mode: 'direct' }, /^\.mode must be 'copy-on-write', not "direct"$/],
          [{ mode: 'copy-on-write', storage: 'tape' }, /^\.storage must be 'disk' or 'memory', not "tape"$/],
        ),
      ],
    },
  ],
  [
    'an object with debug, info, warn and error',
    {
      right: [console],
      wrong: not(/^ must have the methods debug, info, warn and error; \w+ is missing$/, [
        ...[null, 5, 'x', {}, () => {}, { debug() {}, info() {}, warn() {} }],
      ]),
    },
  ],
  [
    'a list of texts of 4 or more characters and of RegExp',
    {
      right: [[], ['abcd', /x/]],
      wrong: not(/^ must be a list of texts of 4 or more characters and of RegExp$/, [
        ...['secret', null, {}, ['abc'], ['secret', 5], [null]],
      ]),
      isSecret: true,
    },
  ],
  [
    'an http: or https: URL',
    {
      right: ['http://127.0.0.1:1/', 'https://a.b/c//', new URL('http://x')],
      wrong: not(/^ must be an http: or https: URL without user, query and fragment$/, [
        ...[...NO_URL, ...NO_TEXT, new URL('http://u:secret@x')],
      ]),
      isSecret: true,
    },
  ],
  [
    'a redis: or rediss: URL, or options or a client of ioredis',
    {
      right: ['redis://127.0.0.1', 'rediss://u:p@x:1', new URL('redis://x'), { host: 'x' }],
      wrong: not(/^ must be a redis: or rediss: URL, options of ioredis or a client of ioredis$/, [
        ...['', 'http://user:secret@host', 'secret', new URL('http://secret'), null, 5, []],
      ]),
      isSecret: true,
    },
  ],
  [
    'printable ASCII without blanks',
    {
      ...text(
        /^ must be printable ASCII without blanks$/,
        ['a', '~!'],
        ['', 'secret a', 'secret\n', 'secretä'],
      ),
      isSecret: true,
    },
  ],
  [
    'at least 16 characters of printable ASCII without blanks',
    {
      ...text(
        /^ must be at least 16 characters of printable ASCII without blanks$/,
        [x(16), x(1000)],
        ['', 'secret', `secret${x(9)}`, `secret ${x(16)}`, `secret${x(16)}\n`, `secret${x(16)}ä`],
      ),
      isSecret: true,
    },
  ],
  [
    'strings by name',
    {
      right: [{}, { Cookie: 'a=b; c=d', 'x-y': '\xe4\t' }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...each(
          [{ 'a b': 'secret' }, /^ must have valid header names, each once, not "a b"$/],
          [{ '': 'secret' }, /^ must have valid header names, each once, not ""$/],
          [{ a: 'secret', A: 'secret' }, /^ must have valid header names, each once, not "A"$/],
          [{ a: 5 }, /^\.a must be text of one line in Latin-1$/],
          [{ a: 'secret\r\nb: c' }, /^\.a must be text of one line in Latin-1$/],
          [{ a: 'secret€' }, /^\.a must be text of one line in Latin-1$/],
        ),
      ],
      isSecret: true,
    },
  ],
  [
    "origins like 'https://example.com'",
    {
      right: ['https://example.com', ['http://a:1', 'https://b'], []],
      wrong: not(/^ must have origins like 'https:\/\/example\.com' only, not /, [
        ...['*', '', 'null', 'https://a/', 'a.b', 5, null, {}, ['https://a', '*'], [5]],
      ]),
    },
  ],
  [
    'a host name or an address',
    text(
      /^ must be a host name or an address, not /,
      ['a', '::1', x(255)],
      ['', 'a b', x(256), 'http://a', 'a\0'],
    ),
  ],
  [
    'a prefix of variable names',
    text(/^ must be a prefix of variable names, not /, ['_', 'A1'], ['', '1A', 'A-']),
  ],
  [
    'printable ASCII without blanks, beginning with /',
    text(
      /^ must begin with \/ and be of printable ASCII without blanks, not /,
      ['/', '/health?x=1'],
      ['', 'health', '/a b', '/a\r\nX: y', '/ä'],
    ),
  ],
  [
    '100 to 599, or { min, max }',
    {
      right: [100, 599, {}, { min: 100, max: 100 }, { max: 299 }],
      wrong: [
        ...not(/^ must be a whole number from 100 to 599, not /, [99, 600, 200.5, Number.NaN]),
        ...NO_OBJECT_RULE.filter(({ value }) => typeof value !== 'number'),
        ...each(
          [{ min: 300, max: 200 }, /^ must have a min that is not above its max$/],
          [{ min: 99 }, /^\.min must be a whole number from 100 to 599, not 99$/],
          [{ least: 300 }, /^ has no option "least"; it has: min, max$/],
        ),
      ],
    },
  ],
  [
    'more than 0, up to 2147483 s',
    positive(/^ must be a number of seconds greater than 0 and at most 2147483, not /, 2_147_483, 2_147_484),
  ],
  ['more than 0', positive(/^ must be a number of processors greater than 0, not /, 1e9, Infinity)],
  [
    'a whole number other than 0',
    {
      right: [1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER],
      wrong: [
        ...each([0, /^ must not be 0: the first line is 1, and the last is -1$/]),
        ...not(
          /^ must be the number of a line, from 1, or a negative number, which counts from the end, not /,
          [...[1.5, 2 ** 53, '1', Number.NaN, null, {}]],
        ),
      ],
    },
  ],
  [
    'a regular expression of 1 to 1000 characters',
    {
      right: ['a', '(', x(1000)],
      wrong: not(/^ must be a regular expression of 1 to 1000 characters, as text/, [
        ...['', x(1001), /x/, 5, null, ['x']],
      ]),
    },
  ],
  [
    /^the name of (an image|a network)$/,
    (_, what = '') =>
      text(
        new RegExp(`^ must be the name of ${what}, like .*, not `),
        ['node:22', 'none'],
        ['', '--privileged', '-x', 'a b', 'a\0', 'a\n'],
      ),
  ],
  [
    "a number with b, k, m or g, like '4g'",
    text(
      /^ must be an amount of memory like '4g' or '512m', not /,
      ['4g', '512M', '1'],
      ['', 'much', '0g', '4t', '4.5g'],
    ),
  ],
  [
    'a command of at most 65536 bytes',
    {
      ...text(
        /^ must be a command of at most 65536 bytes$/,
        ['npm ci', x(65_536)],
        ['', '  ', 'secret\0', x(65_537), '€'.repeat(21_846)],
      ),
      isSecret: true,
    },
  ],
  [
    'a list of paths, not empty',
    {
      right: [['a', BYTES.slice(1)]],
      wrong: [
        ...not(/^ must be a list of paths, not empty, not /, [[], 'a', {}, null, 5]),
        ...each([['a', 5], /^\[1\] must be a string or a Uint8Array, not 5$/]),
      ],
    },
  ],
  [
    'a TracerProvider',
    { right: [{ getTracer() {} }], wrong: not(/^ must be a TracerProvider, not /, [{}, null, 5]) },
  ],
  [
    'bash, wait, write, output, kill, service, sessions, jobs, workspace',
    {
      right: [['bash'], ['wait', 'jobs']],
      wrong: not(/^ must be a list of bash, wait, /, [[], 'bash', null, {}, ['shell'], ['bash', 5]]),
    },
  ],
  [
    'a DNS label of at most 63 characters',
    text(
      /^ must be 1 to 63 characters of a-z 0-9 -, without - at its ends, not /,
      ['a', 'a-1', x(63)],
      ['', 'A', '-a', 'a-', 'a.b', '../a', x(64)],
    ),
  ],
  [
    'Kubernetes labels by name',
    {
      right: [{}, { a: '', 'b.c/d': 'E_f.1' }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...not(/^ must have names of Kubernetes labels, not /, [
          { 'a/b/c': 'd' },
          { '': 'd' },
          { 'B/c': 'd' },
        ]),
        ...not(/^\.a must be at most 63 characters of A-Z a-z 0-9 \. _ -, not /, [
          { a: 'b c' },
          { a: x(64) },
          { a: 5 },
        ]),
      ],
    },
  ],
  [
    'a KubeConfig',
    {
      right: [{ getCurrentCluster() {} }],
      wrong: not(/^ must be a KubeConfig of @kubernetes/, [{}, null, 5, 'x']),
    },
  ],
  [
    "ms, or { type: 'fixed' or 'exponential', delay, jitter }",
    {
      right: [0, 2_147_483_647, { type: 'fixed', delay: 0 }, { type: 'exponential', delay: 1, jitter: 1 }],
      wrong: [
        ...not(/^ must be a number of milliseconds from 0 to 2147483647, not /, [-1, 2 ** 31, Number.NaN]),
        ...NO_OBJECT_RULE.filter(({ value }) => typeof value !== 'number'),
        ...each(
          [{ type: 'linear', delay: 1 }, /^\.type must be 'fixed' or 'exponential', not "linear"$/],
          [
            { type: 'fixed' },
            /^\.delay must be a number of milliseconds from 0 to 2147483647, not undefined$/,
          ],
          [{ type: 'fixed', delay: 1, jitter: 2 }, /^\.jitter must be a number from 0 to 1, not 2$/],
          [{ type: 'fixed', delay: 1, x: 1 }, /^ has no option "x"; it has: type, delay, jitter$/],
        ),
      ],
    },
  ],
  [
    'true, false, a number, or { age, count } with age in seconds',
    {
      right: [true, false, 0, {}, { age: 1, count: 0 }],
      wrong: [
        ...not(/^ must be a whole number from 0 to 9007199254740991, not /, [-1, 0.5, Number.NaN]),
        ...NO_OBJECT_RULE.filter(({ value }) => typeof value !== 'number'),
        ...each(
          [{ age: -1 }, /^\.age must be a whole number from 0 to 9007199254740991, not -1$/],
          [{ count: '1' }, /^\.count must be a whole number from 0 to 9007199254740991, not "1"$/],
          [{ days: 1 }, /^ has no option "days"; it has: age, count$/],
        ),
      ],
    },
  ],
  [
    '{ max, duration } in ms',
    {
      right: [{ max: 1, duration: 1 }],
      wrong: [
        ...NO_OBJECT_RULE,
        ...each(
          [{ max: 0, duration: 1 }, /^\.max must be a whole number from 1 to 9007199254740991, not 0$/],
          [{ max: 1 }, /^\.duration must be a whole number from 1 to 2147483647, not undefined$/],
          [{ max: 1, duration: 1, x: 1 }, /^ has no option "x"; it has: max, duration$/],
        ),
      ],
    },
  ],
  [
    'the `jobs` of a Sandbox or a SandboxClient',
    {
      right: [],
      wrong: not(/^ must be the jobs of a Sandbox or a SandboxClient; its method start is missing$/, [
        ...[null, 5, 'x', {}, { jobs: {} }],
      ]),
    },
  ],
  ['an object', { right: [], wrong: NO_OBJECT_RULE }],
  [
    'an object of its options, or true for their defaults',
    { right: [true, false, {}], wrong: NO_OBJECT_RULE },
  ],
  [/^[\w+-]+( or [\w+-]+)*$/, (whole) => words(whole.split(' or '))],
]

/** Absolute paths of isolation. */
const place: Cases = {
  right: ['/', '/a b'],
  wrong: [
    ...not(/^ must be an absolute path, not /, ['a', '~/a', './b']),
    ...not(/^ must be a path, not /, ['', '/a\0', ...NO_TEXT]),
    ...not(/^ must be at most 4095 characters long$/, [`/${x(4095)}`]),
  ],
}

/** The cases of an option. `call` is the name of its call in the docs. */
export function casesOf(call: string, name: string, bounds: string): Cases {
  if (call === 'isolation.filesystem.mounts') return place
  const cases = casesWith(bounds)
  // The same names of Kubernetes are ids where they are those of sandboxes.
  const isId = call === 'fleet.create' && name === 'id'
  return isId ? { ...cases, wrong: cases.wrong.map((one) => ({ ...one, code: 'INVALID_ID' })) } : cases
}

/** The cases of a kind by its documented bounds. */
export function casesWith(bounds: string): Cases {
  for (const [pattern, cases] of kinds) {
    const groups = typeof pattern === 'string' ? pattern === bounds && [bounds] : pattern.exec(bounds)
    if (groups) return typeof cases === 'function' ? cases(bounds, ...Array.from(groups).slice(1)) : cases
  }
  throw new Error(`write the cases of the kind with the bounds "${bounds}"`)
}
