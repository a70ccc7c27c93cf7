/** The life of sandboxes, by the official SDK. */
import { once } from 'node:events'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { type ServingE2b, serveE2b } from '@nacre/compat'
import {
  AuthenticationError,
  RateLimitError,
  Sandbox,
  SandboxError,
  type SandboxListOpts,
  SandboxNotFoundError,
  Template,
  TimeoutError,
} from 'e2b'
import { OptionError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { outerAddress } from '../../../__test__/helpers/serving.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { networkRules } from '../lib/network.js'
import { connectionOf, request, withSandbox, withServer } from './place.js'

/** A server on an address that sandboxes do not have for themselves. */
async function listenOn(host: string) {
  const server = http.createServer((_, response) => response.end('reached'))
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo
  return { port, [Symbol.asyncDispose]: async () => void server.close() }
}

const directories = (root: string) => readdirSync(path.join(root, 'sandboxes'))

describe('sandboxes', () => {
  it('are created, described, connected to and killed', () =>
    withServer(async ({ create, connection, root }) => {
      const sandbox = await create({ metadata: { name: 'a' }, timeoutMs: 60_000 })
      const info = await sandbox.getInfo()
      expect(info).toMatchObject({
        sandboxId: sandbox.sandboxId,
        templateId: 'base',
        metadata: { name: 'a' },
        state: 'running',
        allowInternetAccess: true,
        lifecycle: { onTimeout: 'kill', autoResume: false },
      })
      expect(info.endAt.getTime() - info.startedAt.getTime()).toBeGreaterThanOrEqual(60_000)
      expect(await sandbox.isRunning()).toBe(true)
      const again = await Sandbox.connect(sandbox.sandboxId, connection)
      await again.files.write('a', '1')
      expect(await sandbox.files.read('a')).toBe('1')
      const [metrics] = await sandbox.getMetrics()
      expect(metrics).toMatchObject({ cpuCount: expect.any(Number), memTotal: expect.any(Number) })
      expect(metrics?.memUsed).toBeGreaterThan(0)
      expect(await sandbox.kill()).toBe(true)
      expect(await sandbox.kill()).toBe(false)
      expect(directories(root)).toEqual([])
      expect(await sandbox.isRunning()).toBe(false)
      expect(await rejectionOf(sandbox.files.read('a'))).toBeInstanceOf(TimeoutError)
      expect(await rejectionOf(sandbox.commands.run('true'))).toBeInstanceOf(SandboxError)
      for (const call of [() => sandbox.getInfo(), () => Sandbox.connect(sandbox.sandboxId, connection)])
        expect(await rejectionOf(call())).toBeInstanceOf(SandboxNotFoundError)
    }))

  it('are listed by pages, states and metadata', () =>
    withServer(async ({ create, connection }) => {
      const metadata = { 'a name': 'x & y=z %20' }
      const first = await create({ metadata })
      const second = await create({ metadata })
      await create()
      const paginator = Sandbox.list({ ...connection, limit: 1, query: { metadata } })
      const pages: string[][] = []
      while (paginator.hasNext) pages.push((await paginator.nextItems()).map(({ sandboxId }) => sandboxId))
      expect(pages).toHaveLength(2)
      expect(pages.flat().sort()).toEqual([first.sandboxId, second.sandboxId].sort())
      await first.pause()
      const paused = Sandbox.list({ ...connection, query: { state: ['paused'] } })
      expect(await paused.nextItems()).toMatchObject([{ sandboxId: first.sandboxId, state: 'paused' }])
      const running = Sandbox.list({ ...connection, query: { state: ['running'] } })
      expect(await running.nextItems()).toHaveLength(2)
    }))

  it('are listed by their start and their template, in both orders', () =>
    withServer(async ({ create, connection }) => {
      const first = await create()
      const { startedAt } = await first.getInfo()
      await holds(() => Date.now() > startedAt.getTime())
      const second = await Sandbox.create('other', connection)
      const ids = async (options: SandboxListOpts) => {
        const paginator = Sandbox.list({ ...connection, limit: 1, ...options })
        const found: string[] = []
        while (paginator.hasNext)
          found.push(...(await paginator.nextItems()).map(({ sandboxId }) => sandboxId))
        return found
      }
      const [one, other] = [first.sandboxId, second.sandboxId]
      expect(await ids({})).toEqual([other, one])
      expect(await ids({ order: 'asc' })).toEqual([one, other])
      expect(await ids({ query: { template: 'other' } })).toEqual([other])
      const startedAfter = (await second.getInfo()).startedAt
      expect(await ids({ query: { startedAfter } })).toEqual([other])
      expect(await ids({ query: { startedAfter: startedAt } })).toEqual([other, one])
    }))

  it('refuse a new time once they are paused, also while its request arrives', () =>
    withSandbox(async (sandbox, { server }) => {
      const sent = http.request(`${server.url}/sandboxes/${sandbox.sandboxId}/timeout`, {
        method: 'POST',
        agent: false,
        headers: { 'x-api-key': server.key, 'content-length': 13, expect: '100-continue' },
      })
      const replied = once(sent, 'response')
      sent.flushHeaders()
      await once(sent, 'continue')
      await sandbox.pause()
      sent.end('{"timeout":0}')
      const [reply] = (await replied) as [http.IncomingMessage]
      reply.resume()
      expect(reply.statusCode).toBe(404)
      expect((await sandbox.getInfo()).state).toBe('paused')
    }))

  it('end or pause when their time is up, and calls extend it', () =>
    withServer(async ({ create, connection, root }) => {
      const short = await create({ timeoutMs: 1000 })
      const pausing = await create({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause' } })
      const extended = await create({ timeoutMs: 1000 })
      await extended.setTimeout(60_000)
      await pausing.files.write('kept', '1')
      await until(
        () => (!existsSync(path.join(root, 'sandboxes', short.sandboxId)) ? true : undefined),
        () => 'still there',
      )
      await until(
        () => (existsSync(path.join(root, 'records', `${pausing.sandboxId}.json`)) ? true : undefined),
        () => 'not paused',
      )
      expect((await pausing.getInfo()).state).toBe('paused')
      expect(await extended.isRunning()).toBe(true)
      // It never shortens the time.
      const { endAt } = await extended.getInfo()
      await Sandbox.connect(extended.sandboxId, { ...connection, timeoutMs: 1000 })
      expect((await extended.getInfo()).endAt).toEqual(endAt)
    }))

  it.each([
    ['paused by a call', false],
    ['paused by its time', true],
  ])('run on after connect for as long as it says, when they were %s', (_, isByTime) =>
    withServer(async ({ create, connection }) => {
      const sandbox = await create({ timeoutMs: 1000, lifecycle: { onTimeout: isByTime ? 'pause' : 'kill' } })
      await sandbox.files.write('kept', 'kept')
      if (!isByTime) await sandbox.pause()
      const { endAt } = await sandbox.getInfo()
      await holds(async () => (await sandbox.getInfo()).state === 'paused' && new Date() > endAt)
      const again = await Sandbox.connect(sandbox.sandboxId, { ...connection, timeoutMs: 60_000 })
      const info = await again.getInfo()
      expect(info.state).toBe('running')
      expect(info.endAt.getTime()).toBeGreaterThan(Date.now() + 30_000)
      // A command lasts longer than what would end it at once.
      expect((await again.commands.run('sleep 0.3; cat kept')).stdout).toBe('kept')
      expect((await again.getInfo()).state).toBe('running')
    }),
  )

  it('are of any template, which exists from the first of them on', () =>
    withServer(async ({ connection }) => {
      for (const template of ['base', 'code-interpreter-v1'])
        expect(await Template.exists(template, connection)).toBe(true)
      expect(await Template.exists('own/name', connection)).toBe(false)
      const building = Template.build(Template().fromBaseImage(), 'own/name', connection)
      expect((await rejectionOf(building)).message).toContain('nacre does not support POST')
      const sandbox = await Sandbox.create('own/name', connection)
      expect((await sandbox.getInfo()).templateId).toBe('own/name')
      expect(await Template.exists('own/name', connection)).toBe(true)
    }))

  it('refuse a lifecycle by which requests would wake them', () =>
    withServer(async ({ create, connection }) => {
      const refused = await rejectionOf(create({ lifecycle: { onTimeout: 'pause', autoResume: true } }))
      expect(refused.message).toContain('501: nacre wakes no sandbox by a request: omit autoResume')
      expect(await Sandbox.list(connection).nextItems()).toEqual([])
      for (const onTimeout of ['pause', { action: 'pause', keepMemory: false }] as const) {
        const sandbox = await create({
          lifecycle: { onTimeout, autoResume: false },
          allowInternetAccess: false,
        })
        expect(await sandbox.getInfo()).toMatchObject({
          allowInternetAccess: false,
          lifecycle: { onTimeout: 'pause', autoResume: false },
        })
      }
    }))

  it('start the MCP gateway of this machine, or end without one', () =>
    withServer(async ({ create, connection, root }) => {
      const mcp = { time: {} }
      const failed = await rejectionOf(create({ mcp: mcp as never }))
      expect(failed.message).toContain('Failed to start MCP gateway')
      expect(await Sandbox.list(connection).nextItems()).toEqual([])
      expect(directories(root)).toEqual([])
    }))

  it('refuse what would not hold, by its name', () =>
    withSandbox(async (sandbox, { create, server, connection }) => {
      for (const [network, rule] of [
        [{ denyOut: ['8.8.8.8'] }, 'denyOut other than 0.0.0.0/0'],
        [{ denyOut: ['::/0'] }, 'denyOut other than 0.0.0.0/0'],
        [
          { allowOut: ['0.0.0.0/0'], rules: { 'a.test': [{ transform: { headers: { a: 'b' } } }] } },
          'rules without hosts in allowOut',
        ],
        [
          { rules: { 'a.test': [{ transform: { headers: { a: 'b' } } }] } },
          'rules without hosts in allowOut',
        ],
        [{ allowPublicTraffic: false }, 'allowPublicTraffic: false'],
        [{ denyOut: ['0.0.0.0/0'], allowPublicTraffic: false }, 'allowPublicTraffic: false'],
        [{ maskRequestHost: 'a' }, 'maskRequestHost'],
      ] as const) {
        const refused = await rejectionOf(create({ network: network as never }))
        expect(refused.message).toContain('501')
        expect(refused.message).toContain(`nacre does not support network of a sandbox with ${rule}`)
      }
      const snapshot = await rejectionOf(sandbox.createSnapshot())
      expect(snapshot.message).toContain('nacre does not support POST /sandboxes/')
      const wrong = { ...connection, apiKey: `e2b_${'0'.repeat(40)}` }
      expect(await rejectionOf(Sandbox.create(wrong))).toBeInstanceOf(AuthenticationError)
      const headers = { 'x-api-key': server.key }
      const post = (body: string) => request(`${server.url}/sandboxes`, { method: 'POST', headers, body })
      for (const body of [
        '',
        '[]',
        '{',
        '{"templateID":"a","timeout":-1}',
        '{"templateID":"a","metadata":{"a":1}}',
      ])
        expect((await post(body)).status, body).toBe(400)
      expect((await request(`${server.url}/templates`, { headers })).status).toBe(501)
      expect((await request(`${server.url}/sandboxes?limit=x`, { headers })).status).toBe(400)
    }))

  it('are limited in number', () =>
    withServer(
      async ({ create }) => {
        const first = await create()
        expect(await rejectionOf(create())).toBeInstanceOf(RateLimitError)
        await first.pause()
        await create()
        expect(await rejectionOf(first.connect())).toBeInstanceOf(RateLimitError)
      },
      { maxSandboxes: 1 },
    ))
})

describe('isolation', () => {
  it('hides other sandboxes and the key, and keeps files of this machine', () =>
    withServer(async ({ create, root }) => {
      const other = await create()
      await other.files.write('secret', 'SECRET')
      const sandbox = await create()
      const tries = [
        `cat ${root}/id`,
        `ls ${root}/sandboxes/*`,
        'touch /etc/nacre-compat',
        'ls /home/user/secret',
      ]
      for (const command of tries)
        expect(await rejectionOf(sandbox.commands.run(command)), command).toMatchObject({
          name: 'CommandExitError',
        })
      expect((await sandbox.commands.run('ps -eo pid | wc -l')).stdout.length).toBeLessThan(4)
    }))

  it('has no network if the client does not want any', () =>
    withServer(async ({ create, server }) => {
      const { port } = new URL(server.url)
      const connect = `exec 3<>/dev/tcp/127.0.0.1/${port}`
      await (await create()).commands.run(connect)
      for (const options of [
        { allowInternetAccess: false },
        { network: { denyOut: ['0.0.0.0/0'] } },
        { network: { denyOut: ['8.8.8.8', '0.0.0.0/0', '::/0'], allowOut: [], allowPublicTraffic: true } },
        { allowInternetAccess: false, network: { allowOut: ['example.com'] } },
      ]) {
        const sandbox = await create(options)
        expect(await rejectionOf(sandbox.commands.run(connect))).toMatchObject({ name: 'CommandExitError' })
      }
      for (const options of [
        { network: { allowPublicTraffic: true } },
        { network: { allowOut: ['0.0.0.0/0'] } },
        { network: { allowOut: ['::/0'] } },
        { network: { denyOut: ['0.0.0.0/0', '::/0'], allowOut: ['example.com', '0.0.0.0/0', '::/0'] } },
        // What is allowed has precedence.
        { network: { denyOut: ['127.0.0.1'], allowOut: ['0.0.0.0/0'] } },
        { allowInternetAccess: false, network: { allowOut: ['0.0.0.0/0'] } },
      ])
        await (await create(options)).commands.run(connect)
    }))

  it('is for the hosts that the client allows', () =>
    withServer(async ({ create }) => {
      const outer = outerAddress()
      await using listening = await listenOn(outer)
      const fetch = `curl -sS http://${outer}:${listening.port}/`
      const deny = { denyOut: ['0.0.0.0/0'] }
      const allowed = await create({ network: { ...deny, allowOut: [outer, '*.example.com'] } })
      expect((await allowed.commands.run(fetch)).stdout).toBe('reached')
      const reached = await create({ allowInternetAccess: false, network: { allowOut: [outer] } })
      expect((await reached.commands.run(fetch)).stdout).toBe('reached')
      for (const network of [{ allowOut: ['example.com'] }, { ...deny, allowOut: ['example.com'] }]) {
        const { commands } = await create({ network })
        const { stdout } = await commands.run(`${fetch} || true`)
        expect(stdout).not.toContain('reached')
      }
      for (const [network, message] of [
        [{ denyOut: ['0.0.0.0/0'], allowOut: ['::/0'] }, '501: nacre does not support ranges of addresses'],
        [{ allowOut: 'example.com' }, '400: network.allowOut must be a list'],
        [{ denyOut: '0.0.0.0/0' }, '400: network.denyOut must be a list'],
        [{ allowOut: ['10.0.0.0/8'] }, '501: nacre does not support ranges of addresses in network.allowOut'],
        [{ allowOut: ['a.test:80'] }, '400: network.allowOut must have names of hosts'],
        [
          { allowOut: ['a.test'], rules: { 'a.test': [{ mask: 1 }] } },
          '501: nacre does not support rules of a.test',
        ],
        [
          { allowOut: ['a.test'], rules: { 'a.test': [{ transform: { headers: { 'a b': 'c' } } }] } },
          '400: network.rules of a.test must have valid names',
        ],
      ] as const)
        expect((await rejectionOf(create({ network: network as never }))).message).toContain(message)
    }))

  it('adds the headers of rules to requests', async () => {
    const headers = { 'api.test': { Authorization: 'Bearer token', 'X-Own': '1' } }
    const { handle } = networkRules({ allow: ['api.test:*'], headers }) ?? {}
    expect(Object.keys(handle ?? {})).toEqual(['api.test:80', 'api.test:443'])
    const request = new Request('https://api.test/a', {
      method: 'POST',
      body: 'x',
      headers: { authorization: 'no' },
    })
    const forward = async (sent: Request) => Response.json([await sent.text(), ...sent.headers])
    const response = await handle?.['api.test:443']?.(request, { forward } as never)
    expect(await response?.json()).toEqual([
      'x',
      ['authorization', 'Bearer token'],
      ['content-type', 'text/plain;charset=UTF-8'],
      ['x-own', '1'],
    ])
  })

  it('can be none: then only clients see /home/user', () =>
    withServer(
      async ({ create, root }) => {
        const sandbox = await create()
        const home = path.join(root, 'sandboxes', sandbox.sandboxId, 'home')
        await sandbox.files.write('/home/user/a', '1')
        expect((await sandbox.commands.run('cat a; pwd', { cwd: '/home/user' })).stdout).toBe(`1${home}\n`)
        expect(await sandbox.files.getInfo('a')).toMatchObject({ path: '/home/user/a' })
        expect(await sandbox.files.list('/home/user')).toMatchObject([
          { name: '.profile' },
          { path: '/home/user/a' },
        ])
      },
      { isolation: 'none' },
    ))
})

describe('the server', () => {
  const withRoot = (root: string) => serveE2b({ port: 0, root })

  it('finds paused sandboxes and its key again, and removes those that ran when it was killed', () =>
    withServer(async ({ root }) => {
      const own = path.join(root, 'own')
      let sandboxId = ''
      let key = ''
      const use = async (test: (server: ServingE2b) => Promise<void>) => {
        await using server = await withRoot(own)
        await test(server)
      }
      await use(async (server) => {
        key = server.key
        expect(key).toMatch(/^e2b_[0-9a-f]{40}$/)
        expect(statSync(path.join(own, 'id')).mode & 0o777).toBe(0o600)
        const sandbox = await Sandbox.create({ ...connectionOf(server), metadata: { a: 'b' } })
        sandboxId = sandbox.sandboxId
        await sandbox.files.write('kept', 'kept')
        await sandbox.pause()
        await Sandbox.create(connectionOf(server))
      })
      expect(directories(own)).toEqual([sandboxId])
      mkdirSync(path.join(own, 'sandboxes', 'ileft', 'home'), { recursive: true })
      await use(async (server) => {
        expect(server.key).toBe(key)
        expect(directories(own)).toEqual([sandboxId])
        const sandbox = await Sandbox.connect(sandboxId, connectionOf(server))
        expect(await sandbox.files.read('kept')).toBe('kept')
        expect((await sandbox.getInfo()).metadata).toEqual({ a: 'b' })
        await sandbox.kill()
      })
      rmSync(own, { recursive: true })
    }))

  it('checks its options and its directory', () =>
    withServer(async ({ root }) => {
      for (const [options, message] of [
        [{ root }, 'in use by another server'],
        [{ root: '/dev/null/nonexistent' }, 'root /dev/null/nonexistent cannot be created: ENOTDIR'],
      ] as const) {
        const error = await rejectionOf(serveE2b(options as never))
        expect(error).toBeInstanceOf(OptionError)
        expect(error.message).toContain(message)
      }
      const open = path.join(root, 'open')
      mkdirSync(open, { mode: 0o755 })
      expect((await rejectionOf(withRoot(open))).message).toContain('change its mode to 0700')
      rmSync(open, { recursive: true })
      writeFileSync(path.join(root, 'file'), '')
      expect((await rejectionOf(withRoot(path.join(root, 'file')))).message).toContain('EEXIST')
      expect(readFileSync(path.join(root, 'file'), 'utf8')).toBe('')
    }))

  it('takes no directory over that has other files', () =>
    withServer(async ({ root }) => {
      const own = path.join(root, 'own')
      mkdirSync(path.join(own, 'sandboxes', 'mine'), { recursive: true, mode: 0o700 })
      for (const id of [undefined, '', 'mine']) {
        if (id !== undefined) writeFileSync(path.join(own, 'id'), id)
        const { message } = await rejectionOf(withRoot(own))
        expect(message).toContain(`root ${own} (--root) has files that are not of a server`)
        expect(directories(own)).toEqual(['mine'])
      }
      rmSync(own, { recursive: true })
    }))

  it('names the port that it cannot use', () =>
    withServer(async ({ server }) => {
      const port = Number(new URL(server.url).port)
      expect((await rejectionOf(serveE2b({ port }))).message).toContain('choose another port')
    }))

  it('ends connections without a key that are left open', () =>
    withServer(async ({ server }) => {
      const open = async (lines: string[]) => {
        const { port } = new URL(server.url)
        const socket = net.connect({ port: Number(port), host: '127.0.0.1', allowHalfOpen: true })
        let received = ''
        socket.on('data', (data) => {
          received += data
        })
        const ended = once(socket, 'end')
        const failed = new Promise((resolve) => socket.on('error', resolve))
        socket.write([...lines, `host: 127.0.0.1:${port}`, '', ''].join('\r\n'))
        try {
          await ended
          // Only a connection that the server has left refuses more.
          const writing = setInterval(() => socket.write('x'), 20)
          await failed.finally(() => clearInterval(writing))
        } finally {
          socket.destroy()
        }
        return received
      }
      const upgrade = ['GET / HTTP/1.1', 'connection: upgrade', 'upgrade: websocket']
      const body = ['POST /sandboxes HTTP/1.1', 'content-length: 1000000']
      const [upgraded, posted] = await Promise.all([open(upgrade), open(body)])
      expect(upgraded).toContain('HTTP/1.1 404')
      expect(posted).toContain('HTTP/1.1 401')
    }))

  it('answers no page in a browser, and no other name', () =>
    withSandbox(async (sandbox, { server }) => {
      const url = `${server.url}/sandboxes`
      const headers = { 'x-api-key': server.key }
      expect((await request(url, { headers })).status).toBe(200)
      expect((await request(url, { headers: { ...headers, host: 'localhost:1' } })).status).toBe(200)
      expect((await request(url, { headers: { ...headers, host: 'evil.example' } })).status).toBe(403)
      expect((await request(url, { headers: { ...headers, origin: 'http://localhost:3000' } })).status).toBe(
        403,
      )
      expect((await request(url)).status).toBe(401)
      const read = await sandbox.downloadUrl('.profile')
      expect((await request(read, { headers: { origin: 'https://evil.example' } })).status).toBe(403)
    }))
})
