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
  ['an address without a scheme', () => new SandboxClient({ url: '127.0.0.1:80' }), /http: or https: URL/],
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
