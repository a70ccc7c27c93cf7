/**
 * Right and wrong values for every kind of option, written by hand: the refusal tests (options/refusals.test.ts) apply
 * them to each option of each call. An option is recognized by its documented bounds, so a new option of a known kind needs
 * nothing here, and a new kind needs an entry.
 */
import { Readable } from 'node:stream'
import type { OptionErrorCode } from 'nacre'

export interface Wrong {
  value: unknown
  /** What the message says after the name of the option: a part of it, or how it begins. */
  message: RegExp | string
  code: OptionErrorCode
}

export class Cases {
  readonly right: unknown[] = []
  readonly wrong: Wrong[] = []
  /** Messages must not show the value. */
  isSecret = false
  #code: OptionErrorCode

  constructor(code: OptionErrorCode = 'INVALID_OPTION') {
    this.#code = code
  }

  takes(...values: unknown[]): this {
    this.right.push(...values)
    return this
  }

  /** Values that break the same rule. */
  refuses(message: RegExp | string, ...values: unknown[]): this {
    this.wrong.push(...values.map((value) => ({ value, message, code: this.#code })))
    return this
  }

  /** The later refusals have another code. */
  with(code: OptionErrorCode): this {
    this.#code = code
    return this
  }

  get secret(): this {
    this.isSecret = true
    return this
  }
}

type Making = (whole: string, ...groups: string[]) => Cases

/** Kinds by their documented bounds. The first that matches counts. */
const kinds: Array<[bounds: string | RegExp, cases: Cases | Making]> = []

function kind(bounds: string, code?: OptionErrorCode): Cases {
  const cases = new Cases(code)
  kinds.push([bounds, cases])
  return cases
}

const escaped = (text: string) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&')
const x = (count: number) => 'x'.repeat(count)
const many = (count: number, item: unknown) => Array(count).fill(item)
const split = (text: string) => text.split(' ')

const NO_TEXT = [5, 5n, null, true, {}, ['x'], () => 'x', Symbol('x'), new String('x')]
const NO_OBJECT = ['x', null, [], () => {}]
const OBJECT = / must be an object(?: like \{ NAME: 'value' \})?, not /
const BYTES = new Uint8Array([0, 255])
const NO_INPUT = [null, 5, true, {}, ['x'], new ArrayBuffer(1), new Uint16Array(1), new Set(['x']), () => 'x']
const NO_URL = ['', '127.0.0.1:80', 'ftp://secret', 'http://u:secret@x', 'http://x?secret', 'http://x#secret']

async function* generate() {
  yield 'x'
}

kind('anything').takes(5, null, 'x', {})
kind('true or false')
  .takes(true, false)
  .refuses(' must be true or false, not ', 0, 1, 'true', 'yes', null, [], {})
kind('false')
  .takes(false)
  .refuses(' must be false: each restart of a service would need another channel', true, null, 0, 'no')
kind('true, false or a function')
  .takes(true, false, () => 'once')
  .refuses(' must be true or false, not ', 'yes', 1, null, {}, [])
for (const bounds of ['a function', 'a function like fetch'])
  kind(bounds)
    .takes(() => {})
    .refuses(' must be a function', 'log', {}, null, 1, true, [])
kind('an AbortSignal')
  .takes(new AbortController().signal, { aborted: false, addEventListener() {}, removeEventListener() {} })
  .refuses(' must be an AbortSignal, not ', null, 'SIGTERM', 15, {}, { aborted: false })
  .refuses(' must be an AbortSignal, not an ', new AbortController(), new EventTarget())
kind('a name like SIGTERM, or 1 to 64')
  .takes('SIGTERM', 'SIGKILL', 1, 64)
  .refuses(/^ must be the name of a signal like 'SIGTERM' or .* 1 to 64, not "/, 'SIGFOO', 'TERM', 'sigterm')
  .refuses(/ 1 to 64, not /, '', '15', 'toString', 0, -1, 65, 99, 1.5, Number.NaN, null, {}, [])

// Numbers.
kinds.push([
  /^(\d+) to (\d+|Number\.MAX_SAFE_INTEGER)( ms| bytes| \(0o7777\))?$/,
  (_, from = '', to = '', unit = '') => {
    const [least, most] = [Number(from), /^\d/.test(to) ? Number(to) : Number.MAX_SAFE_INTEGER]
    const isTime = unit === ' ms' && most === 2_147_483_647 && least <= 1
    const isSize = unit === ' bytes' && most === Number.MAX_SAFE_INTEGER && least === 0
    const what = isTime ? 'number of milliseconds' : `whole number${isSize ? ' of bytes' : ''}`
    const cases = new Cases()
      .takes(least, most, ...(isTime ? [0.5, 1500.2] : []))
      .refuses(` must be a ${what} from ${least} to ${most}, not `, least - 1, most + 1, String(least), 5n)
      .refuses(` must be a ${what} from `, Number.NaN, Infinity, -Infinity, null, true, [], {})
    if (!isTime) cases.refuses(` must be a ${what} from `, least + 0.5)
    if (isTime) cases.refuses(/ not "10s"; 10 seconds are 10000$/, '10s')
    if (unit === ' bytes') cases.refuses(/ not "1GB"; 1 GiB is 1073741824$/, '1GB')
    return cases
  },
])
kind('more than 0, up to 2147483 s')
  .takes(0.001, 2_147_483)
  .refuses(' must be a number of seconds greater than 0 and at most 2147483, not ', 0, -1, 2_147_484, '1')
  .refuses(' must be a number of seconds', Number.NaN, 1n, null, true, {})
kind('more than 0')
  .takes(0.001, 1e9)
  .refuses(' must be a number of processors greater than 0, not ', 0, -1, Infinity, Number.NaN, '1', null, {})
kind('a whole number other than 0')
  .takes(1, -1, Number.MAX_SAFE_INTEGER, -Number.MAX_SAFE_INTEGER)
  .refuses(' must not be 0: the first line is 1, and the last is -1', 0)
  .refuses(/^ must be the number of a line, from 1, or .*, not /, 1.5, 2 ** 53, '1', Number.NaN, null, {})
kind('100 to 599, or { min, max }')
  .takes(100, 599, {}, { min: 100, max: 100 }, { max: 299 })
  .refuses(' must be a whole number from 100 to 599, not ', 99, 600, 200.5, Number.NaN)
  .refuses(OBJECT, ...NO_OBJECT)
  .refuses(' must have a min that is not above its max', { min: 300, max: 200 })
  .refuses('.min must be a whole number from 100 to 599, not 99', { min: 99 })
  .refuses(' has no option "least"; it has: min, max', { least: 300 })

// Ids and names.
kinds.push([
  /^1 to (\d+) of A-Z a-z 0-9 \. _ -(.*)$/,
  (_, most = '', more = '') => {
    const rule = ` must be 1 to ${most} characters of A-Z a-z 0-9 . _ -`
    const isPrefix = more === ' : { }'
    const cases = new Cases(isPrefix ? 'INVALID_OPTION' : 'INVALID_ID')
      .takes('a', 'A-b_c.9', '.hidden', x(Number(most)))
      .refuses(rule, ...NO_TEXT, '', x(Number(most) + 1), '../../x', 'a/b', 'a\0', 'a b', 'ä', 'a\n', 'a\\b')
      .refuses(rule, '~', '$(id)')
    if (isPrefix) return cases.takes('a:{b}')
    if (most === '128') cases.refuses(rule, '.', '..')
    if (more.includes('no whole number'))
      cases.refuses(rule, '12', '-5').refuses(" must not be 'wait', which BullMQ uses itself", 'wait')
    return cases.refuses(rule, 'a:b')
  },
])
kind('non-empty text', 'INVALID_ID')
  .takes('x', '../../x', 'ä b')
  .refuses(' must be a non-empty string, not ', '', ...NO_TEXT)
kind('1 to 256 characters, no control characters')
  .takes('a', 'ä b', x(256))
  .refuses(' must be 1 to 256 characters without control', '', x(257), 'a\nb', 'a\0', '\x7f', ...NO_TEXT)
kind('1 to 50 of a-z 0-9, single hyphens between them')
  .takes('a', '1-a', x(50))
  .refuses(
    ' must be 1 to 50 characters of a-z and 0-9',
    '',
    x(51),
    'A',
    '-a',
    'a-',
    'a--b',
    'a.b',
    'a_b',
    'ä',
    'a\n',
    ...NO_TEXT,
  )
kind('1 to 65536 characters, no NUL')
  .takes('a', `a\n${x(65_534)}`)
  .refuses(' must be 1 to 65536 characters, not only spaces', '', ' ', x(65_537), 'a\0', ...NO_TEXT)
kind('1 to 1000 characters')
  .takes('a', x(1000))
  .refuses(' must be 1 to 1000 characters, not ', '', x(1001), ...NO_TEXT)
kind('a text that is not empty')
  .takes('a')
  .refuses(' must be a text that is not empty, not ', '', ...NO_TEXT)
kind('a regular expression of 1 to 1000 characters')
  .takes('a', '(', x(1000))
  .refuses(' must be a regular expression of 1 to 1000 characters, as text', '', x(1001), /x/, ...NO_TEXT)
kind('bash, wait, write, output, kill, service, sessions, jobs, workspace')
  .takes(['bash'], ['wait', 'jobs'])
  .refuses(' must be a list of bash, wait, ', [], 'bash', null, {}, ['shell'], ['bash', 5])

// Paths and variables.
const url = (text: string) => new URL(text)
kind('a path or a file: URL')
  .takes('/a b', '../x', '~', url('file:///a%20b/'))
  .refuses(' must be a path or a file: URL', '', 'a\0b', ...NO_TEXT, url('file:///a%00b'))
  .refuses(' must be a path or a file: URL, not http://x/', url('http://x/'))
  .refuses(' must be a path or a file: URL, not file:/', url('file://host/x'), url('file:///a%2Fb'))
  .refuses(' must be a path or a file: URL, not file:/', url('file:///a%FF'))
kind('a path')
  .takes('/bin/bash', 'a b', '../x')
  .refuses(
    ' must be a path, not empty and without NUL characters, not ',
    '',
    '/a\0',
    url('file:///'),
    ...NO_TEXT,
  )
kind('an absolute path without control characters')
  .takes('/', '/a b/', '/ä')
  .refuses(' must be an absolute path without control', '', 'jobs', './a', '/a\nb', '/a\0', ...NO_TEXT)
kind('a list of at most 10000 objects with path and ids')
  .takes([{ path: 'a', ids: ['0123456789abcdef'] }], [{ path: Buffer.from('a'), ids: ['0123456789abcdef'] }])
  .refuses(' must be a list of at most 10000 objects with path and ids, not ', 'a', {}, null, 5)
  .refuses('[0] must have both path and ids', [{ path: 'a' }], [{ ids: [] }])
  .refuses('[0].ids must be a list of 1 to 10000 ids of hunks, not ', [{ path: 'a', ids: 'b' }])
  .refuses('[0].ids[0] must be the id of a hunk, like 0123456789abcdef, not ', [{ path: 'a', ids: ['x'] }])

kind('a list of paths, not empty')
  .takes(['a', BYTES.slice(1)])
  .refuses(' must be a list of paths, not empty, not ', [], 'a', {}, null, 5)
  .refuses('[1] must be a string or a Uint8Array, not 5', ['a', 5])
kinds.push([
  /^('all', or )?at most (\d+) paths$/,
  (_, all, most) => {
    const cases = new Cases()
      .takes([], ['/a b\n', '~/ü', '.'], many(Number(most), '/a'), ...(all ? ['all'] : []))
      .refuses(' must be a list of paths, not ', '/a', 'none', {}, null, 5, true)
      .refuses(` must have at most ${most} paths`, many(Number(most) + 1, '/a'))
      .refuses('[0] must be a path', [''], [5], [['/a']], [null])
      .refuses('[1] must be a path', ['/a', '/b\0'])
    return most === '200' ? cases.refuses('[0] must be at most 4095 characters long', [x(4096)]) : cases
  },
])
for (const [bounds, nameRule] of [
  ['undefined unsets', (name: string) => ` has the name ${JSON.stringify(name)}, which bash cannot assign: `],
  ['undefined and null unset', (name: string) => `Invalid environment variable name: ${name}`],
  ['undefined and null are skipped', (name: string) => `Invalid environment variable name: ${name}`],
] as const) {
  const rule = /^\.PORT must (not contain a NUL character$|be a string or undefined, not )/
  const cases = kind(`strings by name; ${bounds}`)
    .takes({ A: 'x', _b1: '', C: undefined, D: ' \n\t"\'$(){}=' }, {}, Object.create(null))
    .refuses(OBJECT, ...NO_OBJECT, 5)
  for (const value of ['a\0b', 5, true, {}, ['x'], () => {}, bounds === 'undefined unsets' ? null : 5])
    cases.refuses(rule, { FINE: 'x', PORT: value })
  cases.with('INVALID_ENV_NAME')
  for (const name of [
    '',
    'A=B',
    '1A',
    'A B',
    'A-B',
    'A\0',
    'Ä',
    'A\n',
    '__proto__ ',
    'BASH_FUNC_f%%',
    '$(id)',
  ])
    cases.refuses(nameRule(name), { [name]: 'x' })
}
kind('a prefix of variable names')
  .takes('_', 'A1')
  .refuses(' must be a prefix of variable names, not ', '', '1A', 'A-', ...NO_TEXT)

// Commands and their input.
const INPUT = ' must be a string, a Uint8Array, an async iterable or a ReadableStream, not '
kind("text, bytes, an iterable of them, or 'pipe'")
  .takes('aü', BYTES, 'pipe', generate(), Readable.from(['x']), new Blob(['x']).stream())
  .refuses(INPUT, ...NO_INPUT)
kind("text, bytes or 'pipe'")
  .takes('aü', BYTES, 'pipe')
  .refuses(INPUT, ...NO_INPUT)
  .refuses(" of a service must be a string, a Uint8Array or 'pipe'", new Blob(['x']).stream(), generate())
kind('text or bytes')
  .takes('aü', '', BYTES)
  .refuses(' must give strings or Uint8Arrays, not ', ...NO_INPUT, generate())
kind('shell text or a list of arguments', 'INVALID_COMMAND')
  .takes('ls', ' ls\n', '# only a comment', ';', 'if', x(2 ** 21), ['echo', '', 'a b', '$x\n'])
  .refuses(' must not be blank', '', ' ', '\t\r\n')
  .refuses(' must not contain a NUL character', 'a\0b', ['a\0'], ['echo', 'a\0b'])
  .refuses(' must have at least one argument, the program', [])
  .refuses(' must name a program; [0] is empty', [''], ['', 'x'])
  .refuses(/^ must have strings only; \[\d\] is /, ['echo', 5], new Array(2), [null])
  .refuses(
    ' must be shell text or a list of arguments, not ',
    null,
    5,
    {},
    { length: 1, 0: 'ls' },
    () => 'ls',
  )
  .refuses(' must be shell text or a list of arguments, not an object', new Set(['ls']))
kind('a command of at most 65536 bytes')
  .secret.takes('npm ci', x(65_536))
  .refuses(/^ must be a command of at most 65536 bytes$/, '', '  ', 'secret\0', x(65_537), '€'.repeat(21_846))
  .refuses(/^ must be a command of at most 65536 bytes$/, ...NO_TEXT)
kind('true for 80 x 24, or { cols, rows }')
  .takes(true, false, { cols: 1, rows: 1 }, { cols: 65_535, rows: 65_535 })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses(' must have both cols and rows', {}, { cols: 80 }, { rows: 24 })
  .refuses('.cols must be a whole number from 1 to 65535, not 0', { cols: 0, rows: 1 })
  .refuses('.rows must be a whole number from 1 to 65535, not 65536', { cols: 1, rows: 65_536 })
  .refuses(' has no option "row"; did you mean "rows"? It has: cols, rows', { cols: 1, row: 1 })

// Limits, users, isolation and workspaces.
kind('an object of limits')
  .takes({}, { memory: 1, cpus: 0.5, pids: 2, openFiles: 3 }, { memory: undefined })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses('.memory must be a whole number from 1 to 9007199254740991, not 0', { memory: 0 })
  .refuses(/^\.memory .* not "1GB"; 1 GiB is 1073741824$/, { memory: '1GB' })
  .refuses('.cpus must be a number of processors greater than 0, not Infinity', { cpus: Infinity })
  .refuses('.pids must be a whole number from 1 to 4294967295, not 4294967296', { pids: 2 ** 32 })
  .refuses(' has no option "mem"; did you mean "memory"? It has: memory, cpus, pids, openFiles', { mem: 1 })
kind('an object with the budget')
  .takes({}, { cpuMs: 60_000 }, { cpuMs: undefined })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses('.cpuMs must be a number of milliseconds from 1 to 2147483647, not 0', { cpuMs: 0 })
  .refuses(' has no option "cpu"; did you mean "cpuMs"? It has: cpuMs', { cpu: 1 })
kind('a name, or { uid, gid }')
  .takes('root', { uid: 0, gid: 0 }, { uid: 4_294_967_294, gid: 1 })
  .refuses(' must be the name of a user or { uid, gid }, not ', '', 'a\0', 'a:b', 'a\nb')
  .refuses(OBJECT, 5, null, [], true)
  .refuses(' must have both uid and gid', { uid: 1 })
  .refuses('.uid must be a whole number from 0 to 4294967294, not 4294967295', { uid: 2 ** 32 - 1, gid: 0 })
  .refuses('.gid must be a whole number from 0 to 4294967294, not "0"', { uid: 0, gid: '0' })
kind("'workspace', 'workspace+network', 'read-only' or rules")
  .takes('workspace', 'workspace+network', 'read-only', {}, { filesystem: {}, network: 'none' })
  .refuses(" must be rules or one of 'workspace', 'workspace+network', 'read-only', not ", 'Workspace', '')
  .refuses(OBJECT, null, 5, [])
  .refuses(/^ must be .*, not true: choose one of 'workspace', .*, or give rules$/, true)
  .refuses(/^ must be .*, not false: leave it out for no restrictions$/, false)
  .refuses(' has no option "net"; did you mean "network"? It has: preset, filesystem', { net: 'none' })
  .refuses('.filesystem.hide[1] must be a path, not ', { filesystem: { hide: ['/a', '/b\0'] } })
  .refuses(".network must be 'host', 'none' or { allow }, not false", { network: false })
kind('an object of lists')
  .takes({}, { read: 'all', write: [] })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses(' has no option "reads"; did you mean "read"? It has: read, write, hide', { reads: [] })
kind('at most 32 like { source, target }')
  .takes([], many(32, { source: '/a', target: '/b' }))
  .refuses(' must be a list of mounts like { source, target }, not ', '/a', {}, null, 5)
  .refuses(' must have at most 32 mounts', many(33, { source: '/a', target: '/b' }))
  .refuses('[0] must be an object, not "/a"', ['/a'])
  .refuses('[0] must have both source and target', [{ source: '/a' }])
  .refuses('[0] has no option "from"; it has: source, target', [{ from: '/a' }])
  .refuses('[0].source must be an absolute path, not "a"', [{ source: 'a', target: '/b' }])
kind('at most 100 like { source, readOnly }')
  .takes([], many(100, { source: '/a', readOnly: true }))
  .refuses(' must be a list of mounts like { source }, not ', '/a', {}, null, 5)
  .refuses(' must have at most 100 mounts', many(101, { source: '/a' }))
  .refuses('[0] must be an object, not "/a"', ['/a'])
  .refuses('[0].source is required', [{}])
  .refuses('[0] has no option "readonly"; did you mean "readOnly"?', [{ source: '/a', readonly: true }])
/** Absolute paths of isolation: their bounds are those of a path. */
const place = new Cases()
  .takes('/', '/a b')
  .refuses(' must be an absolute path, not ', 'a', '~/a', './b')
  .refuses(' must be a path, not ', '', '/a\0', ...NO_TEXT)
  .refuses(' must be at most 4095 characters long', `/${x(4095)}`)
const hosts = kind("at most 200 like 'example.com:443' or '*.example.com:443'")
  .takes([], split('Example.com:443 *.example.com:* 127.0.0.1:1 [2001:DB8::1]:65535 local_host:80'))
  .takes(many(200, 'a:1'))
  .refuses(' must be a list of at most 200 hosts, not ', 'a:1', {}, null, many(201, 'a:1'))
for (const host of [
  ...split(
    'a a:0 a:65536 a: :80 *:80 *.:80 http://a:80 a/b:80 u@a:80 .a:80 -a:80 é.com:80 ::1:80 [::1%eth0]:80',
  ),
  ...split('a:8* 010.0.0.5:1 10.0.0:1 10.0.0.256:1 10.0.0.5.:1 2130706433:1 0x7f.1:1 *.0.0.5:1 [1::2::3]:1'),
  ...['a b:80', '[fe80:::1]:1', `${'a.'.repeat(126)}aa:1`, 5, null],
])
  hosts.refuses("[1] must be a host and a port like 'example.com:443'", ['b:1', host])
for (const [given, meant] of Object.entries({
  'https://a.com': 'a.com:443',
  'https://a.com:8443/path?x#y': 'a.com:8443',
  'http://a.com/': 'a.com:80',
  'ssh://git@a.com/repo.git': 'a.com:22',
  'https://*.A.com': '*.a.com:443',
  'a.com': 'a.com:443',
  'a.com/path': 'a.com:443',
  'https://[::1]:1': '[::1]:1',
}))
  hosts.refuses(
    `[0] must be a host and a port like 'example.com:443' or '*.example.com:443': write '${meant}', not `,
    [given],
  )
kind("'host', 'none' or { allow }")
  .takes('host', 'none', { allow: [] }, { allow: [], deny: ['a:1'], ask: true, askTimeout: 600_000 })
  .refuses(" must be 'host', 'none' or { allow }, not ", 'open', '', null, 5, [], true)
  .refuses('.allow is required', {})
  .refuses('.allow is required: to ask for every host, write { allow: [], ask: true }', { ask: true })
  .refuses('.allow must be a list of at most 200 hosts, not "a:1"', { allow: 'a:1' })
  .refuses(' has no option "asks"; did you mean "ask"? It has: allow, deny, ask', { allow: [], asks: true })
kind('the name of a network, or { allow }')
  .takes('none', 'my-net', { allow: [] }, { allow: ['a:1'], deny: ['a:1'], ask: () => 'deny' })
  .refuses(' must be the name of a network, like none, not ', '', '-x', null, 5, true)
  .refuses('.allow is required', {})
  .refuses('.allow must be a list of at most 200 hosts, not "a:1"', { allow: 'a:1' })
  .refuses('.ask must be a function, not true', { allow: [], ask: true })
  .refuses(' has no option "secrets"', { allow: [], secrets: {} })
kind("'direct', 'copy-on-write' or an object")
  .takes('direct', 'copy-on-write', { mode: 'copy-on-write' })
  .refuses(/^ must be 'direct', 'copy-on-write' or \{ mode: .* \}, not /, 'overlay', true, null, 5, [])
  .refuses('.mode is required', {}, { path: '.' })
  .refuses('.mode must be \'copy-on-write\', not "direct"', { mode: 'direct' })
  .refuses(".storage must be 'disk' or 'memory', not \"tape\"", { mode: 'copy-on-write', storage: 'tape' })

// Objects of other libraries, and secrets.
kind('an object with debug, info, warn and error')
  .takes(console)
  .refuses(/^ must have the methods debug, info, warn and error; \w+ is missing$/, null, 5, 'x', {}, () => {})
  .refuses(/; error is missing$/, { debug() {}, info() {}, warn() {} })
kind('functions by name; 1 to 64 of A-Z a-z 0-9 . _ -')
  .takes({}, { ask: async () => 0, 'my.tool-1_b': () => 1 })
  .refuses(' must be an object of functions by name, not ', null, 5, 'x', [], () => {})
  .refuses(/ has the name ".*": a name has 1 to 64 characters of /, { 'a b': () => 0 }, { 'a/b': () => 0 })
  .refuses(/ has the name "cd", which is taken by bash or nacre$/, { cd: () => 0 })
  .refuses('.ask must be a function, not "ask"', { ask: 'ask' })
kind('a TracerProvider')
  .takes({ getTracer() {} })
  .refuses(' must be a TracerProvider, not ', {}, null, 5)
kind('a KubeConfig')
  .takes({ getCurrentCluster() {} })
  .refuses(' must be a KubeConfig of @kubernetes/client-node', {}, null, 5, 'x')
kind('the `jobs` of a Sandbox or a SandboxClient').refuses(
  ' must be the jobs of a Sandbox or a SandboxClient; its method start is missing',
  ...[null, 5, 'x', {}, { jobs: {} }],
)
kind('a list of texts of 4 or more characters and of RegExp')
  .secret.takes([], ['abcd', /x/])
  .refuses(/^ must be a list of texts of 4 or more characters and of RegExp$/, 'secret', null, {}, ['abc'])
  .refuses(/^ must be a list of texts of 4 or more characters and of RegExp$/, ['secret', 5], [null])
kind('an http: or https: URL')
  .secret.takes('http://127.0.0.1:1/', 'https://a.b/c//', url('http://x'))
  .refuses(
    /^ must be an http: or https: URL without user, query and fragment, like 'http:\/\/127\.0\.0\.1:4747'$/,
    ...NO_URL,
    ...NO_TEXT,
  )
  .refuses(
    /^ must be an http: or https: URL without user, query and fragment, like 'http:\/\/127\.0\.0\.1:4747'$/,
    url('http://u:secret@x'),
  )
kind('a redis: or rediss: URL, or options or a client of ioredis')
  .secret.takes('redis://127.0.0.1', 'rediss://u:p@x:1', url('redis://x'), { host: 'x' })
  .refuses(/^ must be a redis: or rediss: URL, options of ioredis or a client of ioredis$/, '', null, 5, [])
  .refuses(/^ must be a redis: or rediss: URL, /, 'http://user:secret@host', 'secret', url('http://secret'))
kind('printable ASCII without blanks')
  .secret.takes('a', '~!')
  .refuses(
    /^ must be printable ASCII without blanks, and without the word 'Bearer'$/,
    '',
    'secret a',
    'secret\n',
    'secretä',
    ...NO_TEXT,
  )
kind('at least 16 characters of printable ASCII without blanks')
  .secret.takes(x(16), x(1000))
  .refuses(
    /^ must be at least 16 characters of printable ASCII without blanks$/,
    '',
    'secret',
    `secret${x(9)}`,
  )
  .refuses(
    /^ must be at least 16 .* without blanks$/,
    `secret ${x(16)}`,
    `secret${x(16)}\n`,
    `secret${x(16)}ä`,
  )
  .refuses(/^ must be at least 16 .* without blanks$/, ...NO_TEXT)
kind('strings by name')
  .secret.takes({}, { Cookie: 'a=b; c=d', 'x-y': '\xe4\t' })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses(/^ must have valid header names, each once, not "a b"$/, { 'a b': 'secret' })
  .refuses(/^ must have valid header names, each once, not ""$/, { '': 'secret' })
  .refuses(/^ must have valid header names, each once, not "A"$/, { a: 'secret', A: 'secret' })
  .refuses(/^\.a must be text of one line in Latin-1$/, { a: 5 }, { a: 'secret\r\nb: c' }, { a: 'secret€' })

// Servers, images and clusters.
kind("origins like 'https://example.com'")
  .takes('https://example.com', ['http://a:1', 'https://b'], [])
  .refuses(" must have origins like 'https://example.com' only, not ", '*', '', 'null', 'https://a/', 'a.b')
  .refuses(" must have origins like 'https://example.com' only, not ", 5, null, {}, ['https://a', '*'], [5])
kind('a host name or an address')
  .takes('a', '::1', x(255))
  .refuses(' must be a host name or an address, not ', '', 'a b', x(256), 'http://a', 'a\0', ...NO_TEXT)
kind('printable ASCII without blanks, beginning with /')
  .takes('/', '/health?x=1')
  .refuses(' must begin with / and be of printable ASCII without blanks, not ', '', 'health', '/a b')
  .refuses(' must begin with / and be of printable ASCII', '/a\r\nX: y', '/ä', ...NO_TEXT)
for (const what of ['an image', 'a network', 'an OCI runtime'])
  kind(`the name of ${what}`)
    .takes('node:22', 'none')
    .refuses(` must be the name of ${what}, like `, '', '--privileged', '-x', 'a b', 'a\0', 'a\n', ...NO_TEXT)
kind("a number with b, k, m or g, like '4g'")
  .takes('4g', '512M', '1')
  .refuses(
    " must be an amount of memory like '4g' or '512m', not ",
    '',
    'much',
    '0g',
    '4t',
    '4.5g',
    ...NO_TEXT,
  )
kind('a DNS label of at most 63 characters')
  .takes('a', 'a-1', x(63))
  .refuses(
    /^ must be 1 to 63 characters of a-z 0-9 -, without - at its ends, not /,
    '',
    'A',
    '-a',
    'a-',
    'a.b',
  )
  .refuses(' must be 1 to 63 characters of a-z 0-9 -, ', '../a', x(64), ...NO_TEXT)
kind('Kubernetes labels by name')
  .takes({}, { a: '', 'b.c/d': 'E_f.1' })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses(' must have names of Kubernetes labels, not ', { 'a/b/c': 'd' }, { '': 'd' }, { 'B/c': 'd' })
  .refuses(
    '.a must be at most 63 characters of A-Z a-z 0-9 . _ -, not ',
    { a: 'b c' },
    { a: x(64) },
    { a: 5 },
  )
kind('an object').refuses(OBJECT, ...NO_OBJECT, 5)
kind('an object of its options, or true for their defaults')
  .takes(true, false, {})
  .refuses(OBJECT, ...NO_OBJECT, 5)

// Secrets.
kind('8 to 8192 characters, or a function')
  .takes('12345678', () => '12345678', 'a b"c\\d/e+f=', x(8192))
  .refuses(
    ' must be text of 8 to 8192 characters',
    '',
    'secret',
    'secret-ü',
    'secret\nsecret',
    x(8193),
    null,
    5,
    {},
  )
kind("1 to 50 like 'api.example.com' or 'api.example.com:8443'")
  .takes(['a.b'], ['localhost:1', 'A-1.test:443'])
  .refuses(' must be a list of at most 50 hosts', 'a', null, 5, {}, Array(51).fill('a'))
  .refuses(
    '[0] must be the name of one host',
    ['*.a'],
    ['a:*'],
    ['10.0.0.1'],
    ['[::1]:1'],
    ['a_b'],
    ['a..b'],
    [''],
    [5],
  )
kind("1 to 16 of 'authorization', 'body', 'aws-signature', { header: 'x-api-key' } or { query: 'key' }")
  .takes(['authorization', 'body'], ['aws-signature'], [{ header: 'X-Key' }, { query: 'a' }])
  .refuses(' must be a list of at most 16 places', 'body', null, 5, {}, Array(17).fill('body'))
kind('at least 16 letters and digits')
  .takes(x(16), 'a-b_c.d-0123456789ab')
  .refuses(' must have at least 16 letters and digits', '', x(15), `${x(16)} `, '-'.repeat(16), 5, null, {})
kind('at most 50 by the names of variables')
  .takes({}, { TOKEN: { value: '12345678', hosts: ['a'] } })
  .refuses(' must be an object like ', null, 5, 'a', [], ['a'])
kind('at most 8 by names or paths')
  .takes({}, { git: { allow: ['a.b:443'] }, '/opt/tool': { allow: [], files: ['/opt/tool'] } })
  .refuses(' must be an object like ', null, 5, 'a', [], ['a'])
  .refuses(
    ' must have at most 8 programs',
    Object.fromEntries(many(9, 0).map((_, at) => [`p${at}`, { allow: [] }])),
  )
  .refuses('.git must be an object, not ', { git: ['a:1'] })
  .refuses('.git.allow is required', { git: {} })
  .refuses('.git.files must have at least one path: leave it out', { git: { allow: [], files: [] } })
  .refuses('.git.files[0] must be the absolute path of an executable, ', {
    git: { allow: [], files: ['bin/git'] },
  })
kind('the name or the absolute path of a program')
  .takes('git', '/opt/a tool')
  .refuses(' must be the name or the absolute path of a program', '', 'a b', 'a/b', '/a\0', ...NO_TEXT)
kind('1 to 16 absolute paths')
  .takes(['/usr/bin/git'], many(16, '/a'))
  .refuses(' must be a list of at most 16 absolute paths', '/a', null, 5, {}, many(17, '/a'))
  .refuses('[0] must be the absolute path of an executable, like ', ['a'], ['/a\0'], [5])
kind('1 to 8 keys of network.programs')
  .takes(['git'])
  .refuses(' must be a list of at most 8 programs', 'git', null, 5, {}, many(9, 'git'))
kind('at most 50 hosts with functions')
  .takes({}, { 'a.test': () => {} })
  .refuses(' must be an object of functions like ', null, 5, 'a', [], ['a'])
kind('at most 50 hosts with lists of rules')
  .takes({}, { 'a.test': ['GET /**'] })
  .refuses(' must be an object of lists of rules like ', null, 5, 'a', [], ['a'])
kind('a path outside of `write`')
  .takes('/var/log/requests.jsonl', '~/requests.jsonl')
  .refuses(' must be a path, not ', '', 'a\0', ...NO_TEXT)
  .refuses(' must be at most 4095 characters long', x(4096))
kind('at most 20 texts with certificates as PEM')
  .takes([], ['-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'])
  .refuses(
    ' must be a list of at most 20 texts with certificates, not ',
    'a',
    null,
    5,
    {},
    Array(21).fill('a'),
  )
  .refuses('[0] must be certificates as PEM', [''], ['a'], [5])

// Queues.
const KEPT = 'must be a whole number from 0 to 9007199254740991, not'
kind("ms, or { type: 'fixed' or 'exponential', delay, jitter }")
  .takes(0, 2_147_483_647, { type: 'fixed', delay: 0 }, { type: 'exponential', delay: 1, jitter: 1 })
  .refuses(' must be a number of milliseconds from 0 to 2147483647, not ', -1, 2 ** 31, Number.NaN)
  .refuses(OBJECT, ...NO_OBJECT)
  .refuses(".type must be 'fixed' or 'exponential', not \"linear\"", { type: 'linear', delay: 1 })
  .refuses('.delay must be a number of milliseconds from 0 to 2147483647, not undefined', { type: 'fixed' })
  .refuses('.jitter must be a number from 0 to 1, not 2', { type: 'fixed', delay: 1, jitter: 2 })
  .refuses(' has no option "x"; it has: type, delay, jitter', { type: 'fixed', delay: 1, x: 1 })
kind('true, false, a number, or { age, count } with age in seconds')
  .takes(true, false, 0, {}, { age: 1, count: 0 })
  .refuses(` ${KEPT} `, -1, 0.5, Number.NaN)
  .refuses(OBJECT, ...NO_OBJECT)
  .refuses(`.age ${KEPT} -1`, { age: -1 })
  .refuses(`.count ${KEPT} "1"`, { count: '1' })
  .refuses(' has no option "days"; it has: age, count', { days: 1 })
kind('{ max, duration } in ms')
  .takes({ max: 1, duration: 1 })
  .refuses(OBJECT, ...NO_OBJECT, 5)
  .refuses('.max must be a whole number from 1 to 9007199254740991, not 0', { max: 0, duration: 1 })
  .refuses('.duration must be a whole number from 1 to 2147483647, not undefined', { max: 1 })
  .refuses(' has no option "x"; it has: max, duration', { max: 1, duration: 1, x: 1 })

// One of a few words: the last, since other bounds have this form too.
kinds.push([
  /^[\w+-]+( or [\w+-]+)*$/,
  (whole) => {
    const words = whole.split(' or ')
    const rule = new RegExp(`^ must be .*${words.map((word) => `'${escaped(word)}'`).join('.*')}.*, not `)
    return new Cases()
      .takes(...words)
      .refuses(rule, ...words.map((word) => `${word} `), '', null, 5, words, {})
  },
])

/** The cases of an option. `call` is the name of its call in the docs. */
export function casesOf(call: string, name: string, bounds: string): Cases {
  if (call === 'isolation.filesystem.mounts') return place
  const cases = casesWith(bounds)
  // The same names of Kubernetes are ids where they are those of sandboxes.
  return call === 'fleet.create' && name === 'id' ? coded(cases, 'INVALID_ID') : cases
}

function coded(cases: Cases, code: OptionErrorCode): Cases {
  const other = new Cases(code).takes(...cases.right)
  for (const { message, value } of cases.wrong) other.refuses(message, value)
  return other
}

/** The cases of a kind by its documented bounds. */
export function casesWith(bounds: string): Cases {
  for (const [pattern, cases] of kinds) {
    const groups = typeof pattern === 'string' ? pattern === bounds && [bounds] : pattern.exec(bounds)
    if (groups) return cases instanceof Cases ? cases : cases(bounds, ...Array.from(groups).slice(1))
  }
  throw new Error(`write the cases of the kind with the bounds "${bounds}"`)
}
