/** The mistakes of a new user: each message names the cause and the remedy. Those on the command line are in cli/use.test.ts. */
import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { createServer as createNacreServer, serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withServer } from '../helpers/http.js'
import { rejectionOf } from '../helpers/thrown.js'

const TOKEN = 'a-token-for-the-tests'

/** What is refused before anything runs. Types are ignored, as in JavaScript. */
const calls: Array<[mistake: string, call: (sandbox: Sandbox) => unknown, message: RegExp]> = [
  ['reject', (s) => s.exec('true', { reject: true } as object), /"reject"; did you mean "check"\?/],
  ['no command', (s) => s.exec(undefined as never), /command must be shell text or a list of arguments/],
  [
    'a health check as a port',
    (s) => s.startService('x', { healthCheck: 80 as never }),
    /must be \{ port \}.* not 80$/,
  ],
  ['no health check', (s) => s.startService('x', {} as never), /must be given: \{ port \}/],
  ['jobs.start with cmd', (s) => s.jobs.start({ cmd: 'x' } as never), /did you mean "command"\?/],
  ['serve without a sandbox', () => serve({ port: 80 } as never), /sandbox must be a Sandbox/],
  ['serve for all without a token', (s) => serve(s, { host: '0.0.0.0' }), /give token or tokenFile/],
  ['a short token', (s) => serve(s, { token: 'abc' }), /token must be at least 16 characters/],
  ['an address without a scheme', () => new SandboxClient({ url: '127.0.0.1:80' }), /, like 'http:\/\/127/],
  ['no address', () => new SandboxClient({ url: undefined as never }), /^url must be .* not undefined$/],
  ['an address in place of options', () => new SandboxClient('http://x' as never), /like \{ url: \.\.\. \}/],
  [
    'a directory in place of options',
    () => new Sandbox('/tmp' as never),
    /an object like \{ cwd: \.\.\. \}, not "\/tmp"$/,
  ],
  [
    'a token with its scheme',
    () => new SandboxClient({ url: 'http://x', token: 'Bearer x' }),
    /without the word 'Bearer'/,
  ],
  [
    'variables as a list',
    (s) => s.exec('true', { env: ['A=1'] as never }),
    /an object like \{ NAME: 'value' \}/,
  ],
  [
    'a controller in place of its signal',
    (s) => s.exec('true', { signal: new AbortController() as never }),
    /an AbortController: pass its signal$/,
  ],
  [
    'a variable that bash cannot assign',
    (s) => s.exec('true', { env: { 'A-B': 'x' } }),
    /"A-B", which bash cannot assign: a name has letters, digits and _/,
  ],
  [
    'a stream that is read twice',
    async (s) => {
      const stream = s.execStream('true')
      for await (const _ of stream.lines());
      for await (const _ of stream);
    },
    /already read by lines\(\): its result has the output, too$/,
  ],
  [
    'events after no event',
    async (s) => {
      for await (const _ of s.events({ since: 'x' as never }));
    },
    /since must be a whole number from 0 to \d+, not "x"$/,
  ],
  [
    'the columns of a terminal',
    (s) => s.exec('true', { pty: { columns: 80 } as never }),
    /did you mean "cols"\?/,
  ],
  [
    'the address of a server',
    () => new Sandbox({ url: 'http://127.0.0.1:4747' } as never),
    /"url" \(new SandboxClient has it\)/,
  ],
  ['a limit of memory', () => new Sandbox({ memory: 1e9 } as never), /did you mean "limits"\?/],
  ['a callback', (s) => s.exec('true', (() => {}) as never), /an object like \{ .* \}, not a function$/],
]

describe('a call is refused with the cause and the remedy:', () => {
  const sandbox = new Sandbox()
  afterAll(() => sandbox.destroy())
  it.each(calls)('%s', async (_, call, message) => {
    const error = await rejectionOf((async () => call(sandbox))())
    expect(error.name).toBe('OptionError')
    expect(error.message).toMatch(message)
  })
})

const bodies: Array<[path: string, body: object, message: RegExp]> = [
  ['/v1/exec', {}, /command: is missing; it must be shell text or a list/],
  ['/v1/exec', { cmd: 'true' }, /did you mean "command"\?/],
  ['/v1/exec', { command: 'true', env: { A: 1 } }, /env\.A: must be a string, or null/],
  ['/v1/exec', { command: 'true', input: 5 }, /input: must be text or bytes/],
  [
    '/v1/processes',
    { command: 'true', limits: { memory: '1GB' } },
    /limits\.memory: .* 1 GiB is 1073741824$/,
  ],
  ['/v1/processes', { command: 'true', limits: { mem: 1 } }, /did you mean "memory"\?/],
  ['/v1/sessions', { isolation: true }, /isolation: .* choose one of 'workspace'/],
  ['/v1/sessions', { isolation: { net: 'none' } }, /isolation: no option "net"; did you mean "network"\?/],
  ['/v1/services', { command: 'true' }, /healthCheck: is missing; it must be \{"port": 8080\}/],
  ['/v1/services', { command: 'true', healthCheck: 80 }, /healthCheck: must be \{"port": 8080\}/],
]

describe('a request is refused with the cause and the remedy:', () => {
  const sandbox = new Sandbox()
  const server = createNacreServer(sandbox, { authenticated: true })
  afterAll(() => sandbox.destroy())
  it.each(bodies)('%s %j', async (path, body, message) => {
    const headers = { 'content-type': 'application/json' }
    const request = new Request(`http://localhost${path}`, {
      ...{ method: 'POST', headers },
      body: JSON.stringify(body),
    })
    const response = await server.fetch(request)
    const { code, message: text } = (await response.json()) as { code: string; message: string }
    expect([response.status, code]).toEqual([400, 'INVALID_OPTION'])
    expect(text).toMatch(message)
  })
})

describe('a call', () => {
  it('of a program with its arguments beside it names the list', async () => {
    await using sandbox = new Sandbox()
    const session = await sandbox.createSession()
    for (const wrong of [['-la'], '-la'] as never[])
      for (const call of [
        () => sandbox.exec('ls', wrong),
        () => sandbox.startProcess('ls', wrong),
        () => sandbox.startService('ls', wrong),
        () => session.exec('ls', wrong),
        () => session.startProcess('ls', wrong),
        async () => sandbox.execStream('ls', wrong),
      ])
        expect((await rejectionOf(call())).message).toContain("as one list, like ['ls', '-la']")
  })

  it('with the words of other places names the right ones', async () => {
    expect(() => new Sandbox({ shell: 'bash' })).toThrow(
      /^shell must be an absolute path like '\/bin\/bash', not "bash": leave it out to use the bash on PATH$/,
    )
    expect(() => new Sandbox({ network: 'none' } as never)).toThrow('did you mean "isolation"?')
    expect(() => new Sandbox({ isolation: { ask: true } as never })).toThrow('did you mean "network"?')
    expect(() => new Sandbox({ copyOnWrite: true } as never)).toThrow('did you mean "workspace"?')
    await using sandbox = new Sandbox()
    const named = sandbox.jobs.start({ command: 'true', name: 'a' } as never)
    expect((await rejectionOf(named)).message).toContain('did you mean "processName"?')
    for (const cwd of ['~', '~/app']) {
      const refused = await rejectionOf(sandbox.exec('true', { cwd }))
      expect(refused).toMatchObject({ code: 'CWD_NOT_FOUND' })
      expect(refused.message).toContain('give the path of the home directory')
    }
    await using elsewhere = new Sandbox({ cwd: '~' })
    expect((await rejectionOf(elsewhere.exec('true'))).message).toContain('`~` is not expanded')
  })
})

describe('a server', () => {
  let other: Server
  beforeAll(async () => {
    other = createServer((_, reply) => reply.end('<h1>another</h1>')).listen(0, '127.0.0.1')
    await once(other, 'listening')
  })
  afterAll(() => other.close())
  const portOf = () => (other.address() as AddressInfo).port

  it('names the remedy for a port in use and for a host that is not this machine', async () => {
    await using sandbox = new Sandbox()
    const token = TOKEN
    for (const [options, message] of [
      [{ port: portOf() }, /port \d+ cannot be used .*; choose another port, or 0 for a free port$/],
      [{ port: 0, host: 'none.invalid', token }, /; choose an address of this machine as the host$/],
      [{ port: 0, host: '203.0.113.1', token }, /; choose an address of this machine as the host$/],
    ] as const)
      expect((await rejectionOf(serve(sandbox, options))).message).toMatch(message)
  })

  it('that is no nacre server, needs a token or has another path is named with the remedy', () =>
    withServer(
      async ({ url }) => {
        for (const [options, message] of [
          [{ url: `http://127.0.0.1:${portOf()}` }, /not by a nacre server: check the URL/],
          [
            { url: 'http://127.0.0.1:1' },
            /http:\/\/127\.0\.0\.1:1\/.* check that the server runs, and its URL/,
          ],
          [{ url }, /^UNAUTHORIZED: .* token of the server with the option token$/],
          [{ url, token: 'another-token-for-tests' }, /^UNAUTHORIZED: .* with the option token$/],
          [{ url: `${url}/api`, token: TOKEN }, /^NOT_FOUND: .* check the URL of the server$/],
        ] as const) {
          const client = new SandboxClient(options)
          expect((await rejectionOf(client.exec('true'))).message).toMatch(message)
          await client.destroy()
        }
      },
      { token: TOKEN },
    ))
})

describe('an error at run time says what helps:', () => {
  let sandbox: Sandbox
  beforeAll(() => {
    sandbox = new Sandbox()
  })
  afterAll(() => sandbox.destroy())
  const destroyed = async () => {
    const other = new Sandbox()
    await other.destroy()
    return other
  }
  const failures: Array<[mistake: string, call: () => Promise<unknown>, message: RegExp]> = [
    [
      'a directory that is missing',
      () => sandbox.exec('true', { cwd: 'a/b' }),
      /exist; create it, or choose/,
    ],
    [
      'a file as the working directory',
      () => sandbox.exec('true', { cwd: '/proc/version' }),
      /'\/proc\/version' is not a directory; give the path of a directory$/,
    ],
    [
      'a directory of jobs that cannot be made',
      () => new Sandbox({ jobsRoot: '/proc/nowhere/jobs' }).jobs.start({ command: 'true' }),
      /'\/proc\/nowhere\/jobs' cannot be used: .*; choose a directory of your own$/,
    ],
    [
      'the input of a process that has ended',
      async () => {
        const started = await sandbox.startProcess('true', { input: 'pipe' })
        await started.waitForExit()
        await started.write('x')
      },
      /the input of process '.*' is closed; start it again$/,
    ],
    ['a destroyed sandbox', async () => (await destroyed()).exec('true'), /destroyed; create another one$/],
    ['files of it', async () => (await destroyed()).files.read('a'), /destroyed; create another one$/],
    ['a process', () => sandbox.killProcess('web'), /^there is no process 'web'; list the processes to see/],
    ['a session', () => sandbox.deleteSession('web'), /^there is no session 'web'; list the sessions to see/],
    ['a job', () => sandbox.jobs.status('web'), /^there is no job 'web'; list the jobs to see/],
    ['the default session', () => sandbox.createSession({ id: 'default' }), /choose another id$/],
    [
      'a session twice',
      async () => {
        await sandbox.createSession({ id: 'a' })
        await sandbox.createSession({ id: 'a' })
      },
      /exists; use or delete it, or choose another id$/,
    ],
    [
      'a process twice',
      async () => {
        await sandbox.startProcess('true', { processId: 'a' })
        await sandbox.startProcess('true', { processId: 'a' })
      },
      /exists; choose another id$/,
    ],
    ['a file', () => sandbox.files.read('no/such'), /exist; a relative path starts at the directory of the/],
    [
      'a file with a whole path',
      () => sandbox.files.read('/proc/no'),
      /'\/proc\/no' does not exist; check the/,
    ],
    ['a directory', () => sandbox.files.read('/'), /is a directory; give the path of a file$/],
    [
      'a file as a directory',
      () => sandbox.files.list('/proc/version'),
      /is not a directory.*; check the path$/,
    ],
    [
      'a user',
      () => new Sandbox({ user: 'missing-user' }).exec('id'),
      /user 'missing-user'.*; create it, or/,
    ],
    [
      'a service on another port',
      () => sandbox.startService('echo on; sleep 60', { healthCheck: { port: 1, timeout: 1 } }),
      /before it listened on port 1; raise the timeout if it needs longer\. /,
    ],
  ]
  it.each(failures)('%s', async (_, call, message) => {
    expect((await rejectionOf(call())).message).toMatch(message)
  })
})

describe('an object that has no options', () => {
  it('is refused, instead of counting as none: a promise without `await`, a Map', async () => {
    await using sandbox = new Sandbox()
    const promise = Promise.resolve({ isolation: 'read-only', timeout: 5 }) as never
    for (const call of [
      () => sandbox.exec('true', promise),
      () => sandbox.startProcess('true', promise),
      () => sandbox.createSession(promise),
      () => sandbox.jobs.start(promise),
      () => sandbox.files.write('a', 'b', promise),
      () => sandbox.exec('true', { env: promise }),
      async () => new Sandbox(promise),
      async () => new Sandbox({ isolation: promise }),
      async () => new SandboxClient(promise),
      () => serve(sandbox, promise),
    ])
      expect((await rejectionOf(call())).message).toMatch(/must be .*not a promise: await it/)
    for (const [value, kind] of [
      [new Map([['timeout', 5]]), 'Map'],
      [new Headers({ timeout: '5' }), 'Headers'],
      [new Date(), 'Date'],
    ] as const)
      expect((await rejectionOf(sandbox.exec('true', value as never))).message).toMatch(
        new RegExp(`must be an object like .*, not an object of the kind ${kind}$`),
      )
  })

  it('may be of a class or without a prototype', async () => {
    await using sandbox = new Sandbox()
    class Options {}
    for (const options of [new Options(), Object.create(null), {}])
      expect((await sandbox.exec('echo on', options)).stdout).toBe('on\n')
  })
})

describe('an option at the wrong call', () => {
  it('is named with the right one, which has it', async () => {
    await using sandbox = new Sandbox()
    const wrong: Array<[object, RegExp]> = [
      [{ isolation: 'workspace' }, /"isolation" \(new Sandbox or createSession has it\); it has: sessionId/],
      [{ workspace: 'copy-on-write' }, / \(new Sandbox has it\); /],
      [{ limits: { memory: 5 } }, / \(new Sandbox, startProcess or jobs\.start has it\); /],
      [{ maxOutput: 5 }, /did you mean "outputLimit"\?/],
    ]
    for (const [options, message] of wrong)
      expect((await rejectionOf(sandbox.exec('true', options))).message).toMatch(message)
    const port = sandbox.startService('true', { port: 3000 } as never)
    expect((await rejectionOf(port)).message).toContain('healthCheck of startService has it')
    // They are where the messages say.
    await using _ = new Sandbox({ user: undefined, shell: undefined, stateDir: undefined, limits: undefined })
    for (const name of ['isolation', 'workspace'])
      expect(() => new Sandbox({ [name]: 5 } as never)).toThrow(new RegExp(`^${name} must be`))
  })
})
