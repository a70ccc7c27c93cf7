/** Programs with hosts of their own: what nothing else can reach, whatever it pretends to be. */
import { execFileSync } from 'node:child_process'
import { linkSync, mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Denial } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { outerAddress } from '../helpers/serving.js'
import { Programs, type Tier, tiers } from './tiers.js'

interface Reply {
  results: { all: string; exitCode: number; denials: Denial[]; asked: string[] }[]
  /** All that was asked of the server. */
  asked: string[]
  target: string
  client: string
  /** Why no session has begun. */
  code?: string
}

const RUNNER = 'programs-runner.mjs'
let programs: Programs

beforeAll(() => {
  programs = new Programs(RUNNER)
  const bin = path.join(programs.directory, 'bin')
  mkdirSync(bin)
  const compile = (name: string, source: string, ...options: string[]) =>
    execFileSync(
      'cc',
      ['-O1', '-pthread', ...options, '-o', path.join(bin, name), path.join(__dirname, 'programs', source)],
      { stdio: 'pipe' },
    )
  compile('client', 'client.c')
  compile('attack', 'attack.c')
  compile('library.so', 'library.c', '-shared', '-fPIC')
  compile('linked', 'client.c')
  linkSync(path.join(bin, 'linked'), path.join(bin, 'linked-too'))
  writeFileSync(path.join(bin, 'script'), '#!/bin/sh\n', { mode: 0o755 })
  writeFileSync(path.join(bin, 'text'), 'text', { mode: 0o755 })
  compile('data.so', 'library.c', '-shared', '-fPIC', '-nostdlib', '-DDATA', '-Wl,-z,noexecstack')
})

afterAll(() => programs.remove())

/** Where every program may, so that the attempts show what they would do. */
const OPEN = new Set([
  ...[
    'another program',
    'a copy',
    'a copy before it on the PATH',
    'its name',
    'its path as the first argument',
  ],
  ...[
    'its command name',
    'a script',
    'the network of bash',
    'LD_PRELOAD',
    'LD_AUDIT',
    'a library in shared memory',
  ],
  ...['a library in the private directory', 'a library of a memfd', 'the loader', 'a program of a memfd'],
  ...[
    'a copy in a memfd',
    'ptrace of a child',
    'ptrace of a running one',
    'an execution while threads connect',
  ],
  ...['an execution while memory is shared', 'a filter that forges its socket', 'namespaces and personality'],
  ...['a connection that a helper inherits'],
])

const run = (tier: Tier, task: object) =>
  programs.run<Reply>(tier, RUNNER, { address: outerAddress(), ...task })

/** Waits until the client, in the background with its output in `out`, has its connection: V is its pid, FD the descriptor. */
const waiting =
  'mkfifo in; { exec 8<>in; exec $CLIENT 3128 $TARGET wait < in > out; } & V=$!; ' +
  "until grep -qs waits out; do kill -0 $V || break; sleep 0.05; done; FD=$(cut -d' ' -f2 out); "
const after = '; kill $V; rm -f in out'

/** Each tries to ask for /stolen as the client, without asking it to. */
const ATTEMPTS: [name: string, command: string][] = [
  ['another program', './attack plain $CLIENT $TARGET'],
  ['a copy', 'cp $CLIENT client && ./client 3128 $TARGET /stolen'],
  [
    'a copy before it on the PATH',
    'mkdir -p bin && cp $CLIENT bin/client && PATH=$PWD/bin:$PATH client 3128 $TARGET /stolen',
  ],
  ['its name', 'cp attack client && ./client plain $CLIENT $TARGET'],
  ['its path as the first argument', '(exec -a $CLIENT ./attack plain $CLIENT $TARGET)'],
  ['its command name', `perl -e '$0 = "client"; exec "./attack", "plain", $ENV{CLIENT}, $ENV{TARGET}'`],
  ['a link in its place', 'ln -sf $PWD/attack $CLIENT; $CLIENT plain $CLIENT $TARGET'],
  ['a file in its place', 'cp -f attack $CLIENT; mv -f attack $CLIENT; $CLIENT plain $CLIENT $TARGET'],
  ['a hard link', 'ln $CLIENT hard && ./hard 3128 $TARGET /stolen'],
  [
    'a script',
    "printf '#!/bin/bash\\nexec ./attack plain $CLIENT $TARGET\\n' > client; chmod +x client; ./client",
  ],
  [
    'the network of bash',
    'exec 3<>/dev/tcp/127.0.0.1/3128 && printf "CONNECT $TARGET HTTP/1.1\\r\\n\\r\\nGET /stolen HTTP/1.1\\r\\nHost: t\\r\\nConnection: close\\r\\n\\r\\n" >&3 && cat <&3',
  ],
  ['LD_PRELOAD', 'LD_PRELOAD=$PWD/library.so $CLIENT 3128 $TARGET /'],
  ['LD_AUDIT', 'LD_AUDIT=$PWD/library.so $CLIENT 3128 $TARGET /'],
  ['LD_LIBRARY_PATH', 'cp library.so libc.so.6; LD_LIBRARY_PATH=$PWD $CLIENT 3128 $TARGET /'],
  [
    'a library in shared memory',
    'cp library.so /dev/shm/l.so; LD_PRELOAD=/dev/shm/l.so $CLIENT 3128 $TARGET /',
  ],
  [
    'a library in the private directory',
    'cp library.so $TMPDIR/l.so; LD_PRELOAD=$TMPDIR/l.so $CLIENT 3128 $TARGET /',
  ],
  ['a library of a memfd', './attack memfd-library $CLIENT $TARGET'],
  [
    'the loader',
    '/lib64/ld-linux-x86-64.so.2 --preload ./library.so $CLIENT 3128 $TARGET /; /lib/ld-linux-aarch64.so.1 $CLIENT 3128 $TARGET /stolen',
  ],
  ['a program of a memfd', './attack memfd-program $CLIENT $TARGET'],
  ['a copy in a memfd', './attack memfd-copy $CLIENT $TARGET'],
  ['ptrace of a child', './attack traceme $CLIENT $TARGET'],
  ['ptrace of a running one', `${waiting} ./attack attach $CLIENT $TARGET $V${after}`],
  ['its memory in /proc', `${waiting} ./attack memory-file $CLIENT $TARGET $V${after}`],
  ['the memory of a child in /proc', './attack memory-of-child $CLIENT $TARGET'],
  ['process_vm_writev', `${waiting} ./attack vm-writev $CLIENT $TARGET $V${after}`],
  ['its connection by pidfd_getfd and /proc', `${waiting} ./attack getfd $CLIENT $TARGET $V $FD${after}`],
  ['the file that a process says it executes', './attack exe-file $CLIENT $TARGET'],
  ['an execution while threads connect', './attack exec-race $CLIENT $TARGET'],
  ['an execution while memory is shared', './attack shared-exec $CLIENT $TARGET'],
  ['the ports of the proxy', './attack ports $CLIENT $TARGET'],
  ['a listener in its place', './attack listener $CLIENT $TARGET'],
  ['a filter that forges its socket', './attack forged-socket $CLIENT $TARGET'],
  ['namespaces and personality', './attack namespaces $CLIENT $TARGET'],
  [
    'a connection that a helper inherits',
    `$CLIENT 3128 $TARGET / bash -c 'for f in /proc/self/fd/*; do n=\${f##*/}; [ "$n" -gt 2 ] && printf "GET /stolen HTTP/1.1\\r\\nHost: t\\r\\nConnection: close\\r\\n\\r\\n" >&"$n" && cat <&"$n"; done'`,
  ],
  [
    'a debugger',
    `${waiting} gdb -p $V -batch -ex 'call (int)getpid()' && echo STOLEN; strace -o /dev/null $CLIENT 3128 $TARGET / && echo STOLEN${after}`,
  ],
]

const successful = (results: Reply['results']) =>
  ATTEMPTS.flatMap(([name], at) => {
    const { all = '', asked = [] } = results[at] ?? {}
    return /STOLEN|\/stolen\n/.test(all) || asked.includes('/stolen') ? [name] : []
  })

describe.each(tiers.filter(({ hasMounts }) => hasMounts))('with $name', (tier) => {
  it('only the program reaches its hosts', async () => {
    const { results, target, client, code } = await run(tier, {
      commands: [
        '$CLIENT 3128 $TARGET /own',
        'client 3128 $TARGET /own',
        './attack plain $CLIENT $TARGET; false',
      ],
    })
    expect(code).toBeUndefined()
    const [byPath, byName, other] = results
    for (const result of [byPath, byName]) {
      expect(result?.all).toContain('reached /own')
      expect(result?.asked).toEqual(['/own'])
    }
    const attack = expect.stringMatching(/\/work\/attack$/)
    expect(other?.denials).toMatchObject([
      { kind: 'network', target, rule: 'isolation.network.programs', program: attack },
    ])
    expect(client).toMatch(/\/bin\/client$/)
  })

  it('only the program reaches them without the variables of the proxy', async () => {
    const { results } = await run(tier, {
      commands: ['$CLIENT 0 $OUTER /own', './attack direct $CLIENT $OUTER; false'],
    })
    expect(results.map(({ asked }) => asked)).toEqual([['/own'], []])
    expect(results[1]?.denials).toMatchObject([{ rule: 'isolation.network.programs' }])
  })

  it('a name leads to the program on the PATH, and git to its helper', async () => {
    const { results, code } = await run(tier, {
      commands: [
        'curl -sS http://$TARGET/curl',
        "curl -sS --noproxy '*' http://$OUTER/curl",
        'git ls-remote http://$TARGET/git',
        'cp $(command -v curl) other; ./other -sSf http://$TARGET/other',
      ],
      env: { PATH: '/usr/bin:/bin' },
      programs: { curl: {}, git: {} },
    })
    expect(code).toBeUndefined()
    const asked = results.map((result) => result.asked)
    expect(asked).toEqual([['/curl'], ['/curl'], ['/git/info/refs?service=git-upload-pack'], []])
  })

  it('other programs reach what all may', async () => {
    const { results } = await run(tier, {
      commands: ['./attack plain $CLIENT $TARGET', '$CLIENT 3128 $TARGET /own'],
      isOpen: true,
    })
    expect(results.map(({ asked }) => asked)).toEqual([['/stolen'], ['/own']])
  })

  it('nothing else can be the program', async () => {
    const { results, asked, code } = await run(tier, { commands: ATTEMPTS.map(([, command]) => command) })
    expect(code).toBeUndefined()
    expect(asked).not.toContain('/stolen')
    expect(successful(results)).toEqual([])
    expect(results).toHaveLength(ATTEMPTS.length)
  })

  it('the attempts work where every program may reach the host', async () => {
    const commands = ATTEMPTS.map(([, command]) => command)
    const { results, target } = await run(tier, { commands, programs: null, isOpen: true })
    expect(target).not.toBe('')
    expect([...OPEN].filter((name) => !successful(results).includes(name))).toEqual([])
  })

  it.each([
    ['a list of what may be read', { isolation: { filesystem: { read: ['BIN'], write: ['.'] } } }],
    ['a copy-on-write workspace', { workspace: { mode: 'copy-on-write' } }],
    ['explained refusals', { isolation: { explain: true } }],
    ['questions', { isolation: { network: { ask: true, askTimeout: 60_000 } } }],
    [
      'rules for its requests',
      { isolation: { network: { requests: { 'own.test': ['GET /**'] } } }, own: 'own.test:443' },
    ],
  ])('with %s', async (_, task) => {
    const { results, code } = await run(tier, {
      commands: [
        '$CLIENT 3128 $TARGET /own',
        './attack plain $CLIENT ${OWN-$TARGET}; false',
        'LD_PRELOAD=$PWD/library.so $CLIENT 3128 $TARGET /own',
        'LD_PRELOAD=$PWD/library.so ./attack plain $CLIENT $TARGET',
        './attack memory-of-child $CLIENT $TARGET',
      ],
      ...task,
    })
    expect(code).toBeUndefined()
    expect(results.map(({ asked }) => asked)).toEqual([['/own'], [], ['/own'], [], ['/']])
    expect(results[1]?.denials).toContainEqual(
      expect.objectContaining({ rule: 'isolation.network.programs' }),
    )
    expect(results[2]?.all).toContain('cannot be preloaded')
    expect(results[3]?.all).toMatch(/^loaded, and refused/)
    expect(results[4]?.all).not.toContain('STOLEN')
  })

  it('a session loads nothing that another session could have written', async () => {
    const { results, code } = await run(tier, {
      commands: ['LD_PRELOAD=$PWD/library.so $CLIENT 3128 $TARGET /own', 'touch x'],
      session: { filesystem: { write: [] } },
    })
    expect(code).toBeUndefined()
    expect(results[0]).toMatchObject({ asked: ['/own'], all: expect.stringContaining('cannot be preloaded') })
    expect(results[1]?.exitCode).not.toBe(0)
  })

  it('names the library that the program may not load', async () => {
    const commands = [
      'LD_PRELOAD=$PWD/data.so $CLIENT 3128 $TARGET /',
      'LD_PRELOAD=$PWD/data.so $CLIENT 3128 $TARGET /none; false',
    ]
    const { results } = await run(tier, { commands })
    for (const { all, denials } of results) {
      expect(all).toContain('cannot be preloaded')
      expect(denials).toEqual([
        {
          ...{ kind: 'read', target: expect.stringMatching(/\/work\/data\.so$/) },
          rule: 'isolation.network.programs',
          ...{ program: expect.stringMatching(/\/bin\/client$/), pid: expect.any(Number) },
          command: expect.stringContaining('client 3128'),
        },
      ])
    }
  })

  it('other programs load what they want', async () => {
    const { results } = await run(tier, {
      commands: ['LD_PRELOAD=$PWD/library.so /bin/true; LD_PRELOAD=$PWD/data.so /bin/true'],
    })
    expect(results).toMatchObject([{ all: 'loaded, and refused\n', exitCode: 0 }])
  })
})

describe('is refused before anything runs', () => {
  const [tier] = tiers as [Tier]
  const bin = () => path.join(programs.directory, 'bin')
  const refused: [what: string, task: () => object, reason: RegExp][] = [
    [
      'a program that is not there',
      () => ({ programs: { 'no-such-program': {} } }),
      /no-such-program is not on the PATH: install it/,
    ],
    [
      'a file that is not there',
      () => ({ programs: { client: { files: ['/usr/bin/no-such'] } } }),
      /there is no file '\/usr\/bin\/no-such'/,
    ],
    [
      'a script',
      () => ({ programs: { client: { files: [path.join(bin(), 'script')] } } }),
      /is a script, which any program can pass/,
    ],
    [
      'a file of data',
      () => ({ programs: { client: { files: [path.join(bin(), 'text')] } } }),
      /is not a program of this machine/,
    ],
    [
      'a directory',
      () => ({ programs: { client: { files: ['/usr/bin'] } } }),
      /is not a file: name an executable/,
    ],
    ['the shell', () => ({ programs: { bash: {} } }), /is the session's shell, which runs any command/],
    [
      'the loader',
      () => ({ programs: { '/lib64/ld-linux-x86-64.so.2': {} } }),
      /is the loader|there is no file/,
    ],
    [
      'what the session can write',
      () => ({ isolation: { filesystem: { write: ['.', bin()] } } }),
      /is below '.*bin', where programs of the sandbox can write: install it elsewhere/,
    ],
    [
      'what other sessions can write',
      () => ({ session: { filesystem: { write: [] } }, programs: { client: { files: ['WORK/attack'] } } }),
      /is below '.*work', where programs of the sandbox can write: install it elsewhere/,
    ],
    [
      'one file of two programs',
      () => ({ programs: { client: {}, [path.join(bin(), 'client')]: {} } }),
      /belongs to two programs/,
    ],
    [
      'another name of the file',
      () => ({ programs: { linked: {} } }),
      /has another name \(it is a hard link\)/,
    ],
    ['learning', () => ({ isolation: { learn: true } }), /with isolation.learn/],
    ['processes of others', () => ({ isolation: { processes: 'host' } }), /set isolation.processes to 'own'/],
  ]

  it.each(refused)('%s', async (_, task, reason) => {
    const { results, code } = await run(tier, { commands: ['true'], ...task() })
    expect(results).toEqual([])
    expect(code).toMatch(
      /^ISOLATION_UNSUPPORTED: isolation\.network\.programs cannot be enforced on this machine: /,
    )
    expect(code).toMatch(reason)
  })

  it.each(tiers.filter(({ hasMounts }) => !hasMounts))(
    'without namespaces, also with bestEffort: $name',
    async (landlock) => {
      const { code } = await run(landlock, { commands: ['true'], isolation: { bestEffort: true } })
      expect(code).toMatch(/ISOLATION_UNSUPPORTED.*without network namespaces and a broker/)
    },
  )
})
