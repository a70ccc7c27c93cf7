/** Connections to programs of a session, and local ports that lead there. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server } from 'node:net'
import { text } from 'node:stream/consumers'
import { Sandbox, type Session } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { freePort } from '../helpers/serving.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

/** Replies with what it has got, in capitals, once the client has closed its half. */
const ECHO = `
const server = require('node:net').createServer({ allowHalfOpen: true }, (socket) => {
  let all = ''
  socket.on('data', (data) => { all += data })
  socket.on('end', () => socket.end(all.toUpperCase()))
  socket.on('error', () => {})
})
server.listen(Number(process.env.PORT), process.env.HOST, () => console.log('listening'))
`

async function startEcho(session: Session, port: number, host = '127.0.0.1') {
  const env = { PORT: String(port), HOST: host }
  const started = await session.startProcess(['node', '-e', ECHO], { env })
  await started.waitForLog('listening')
  return started
}

/** The reply of a server on this port of the session. */
async function replyOf(session: Session, port: number): Promise<string> {
  const stream = await session.connect(port)
  stream.end('hello')
  return text(stream)
}

async function listening(port = 0): Promise<Server> {
  const server = createServer((socket) => socket.end('not the sandbox'))
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return server
}

describe('session.connect', () => {
  for (const host of ['127.0.0.1', '0.0.0.0', '::1', '::', '127.0.0.2'])
    it(`reaches a program that listens on ${host}, and each direction ends alone`, () =>
      withSandbox(async ({ sandbox }) => {
        const session = await sandbox.createSession()
        const port = await freePort()
        await startEcho(session, port, host)
        expect(await replyOf(session, port)).toBe('HELLO')
      }))

  it('passes many bytes in both directions', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      const port = await freePort()
      await startEcho(session, port)
      const stream = await session.connect(port)
      const sent = 'x'.repeat(20_000_000)
      stream.end(sent)
      expect((await text(stream)) === sent.toUpperCase()).toBe(true)
    }))

  it('never reaches a program of the machine, of another session, or one that has taken the place', () =>
    withSandbox(async ({ sandbox }) => {
      const [session, other] = [await sandbox.createSession(), await sandbox.createSession()]
      const server = await listening()
      const { port } = server.address() as AddressInfo
      const closed = { code: 'PORT_CLOSED', message: expect.stringContaining(`on port ${port}`) }
      expect(await rejectionOf(session.connect(port))).toMatchObject(closed)
      server.close()
      const echo = await startEcho(other, port)
      expect(await rejectionOf(session.connect(port))).toMatchObject(closed)
      expect(await replyOf(other, port)).toBe('HELLO')
      await echo.kill()
      const again = await listening(port)
      expect(await rejectionOf(other.connect(port))).toMatchObject(closed)
      again.close()
    }))

  it('refuses a port whose connections another program could take', () =>
    withSandbox(async ({ sandbox }) => {
      const [session, other] = [await sandbox.createSession(), await sandbox.createSession()]
      const port = await freePort()
      const shared = `
        use Socket; socket(my $s, PF_INET, SOCK_STREAM, 0); setsockopt($s, SOL_SOCKET, 15, 1);
        bind($s, pack_sockaddr_in(${port}, INADDR_LOOPBACK)) or die; listen($s, 5); $| = 1; print "listening\\n"; sleep 600`
      const own = await session.startProcess(['perl', '-e', shared])
      await own.waitForLog('listening')
      ;(await session.connect(port)).destroy()
      const rival = await other.startProcess(['perl', '-e', shared])
      await rival.waitForLog('listening')
      expect(await rejectionOf(session.connect(port))).toMatchObject({ code: 'PORT_CLOSED' })
      await rival.kill()
      ;(await session.connect(port)).destroy()
    }))

  it('rejects closed ports, and streams end with the sandbox', () =>
    withSandbox(
      async ({ sandbox }) => {
        const session = await sandbox.createSession()
        expect(
          await rejectionOf((await sandbox.getSession('default'))?.connect(1) as Promise<unknown>),
        ).toMatchObject({ code: 'PORT_CLOSED' })
        const port = await freePort()
        await startEcho(session, port)
        const stream = await session.connect(port)
        stream.on('error', () => {})
        const end = once(stream, 'close')
        await sandbox.destroy()
        await end
        expect(await rejectionOf(session.connect(port))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      },
      { destroys: true },
    ))

  it('closes connections that are made while the sandbox ends', () =>
    withSandbox(
      async ({ sandbox }) => {
        const session = await sandbox.createSession()
        const port = await freePort()
        await startEcho(session, port)
        const ends = Array.from({ length: 20 }, async () => {
          const stream = await session.connect(port).catch((error) => void expect(error.code).toBeDefined())
          stream?.on('error', () => {})
          if (stream !== undefined && !stream.destroyed) await once(stream, 'close')
        })
        await sandbox.destroy()
        await Promise.all(ends)
      },
      { destroys: true },
    ))
})

describe('in a network namespace', () => {
  it('leads to the programs of the session, which share no ports with the machine', () =>
    withSandbox(
      async ({ sandbox }) => {
        const [session, other] = [
          await sandbox.createSession({ id: 'a' }),
          await sandbox.createSession({ id: 'b' }),
        ]
        const server = await listening()
        const { port } = server.address() as AddressInfo
        expect(await rejectionOf(session.connect(port))).toMatchObject({ code: 'PORT_CLOSED' })
        // The same port, three times.
        await startEcho(session, port)
        await startEcho(other, port, '::1')
        expect(await replyOf(session, port)).toBe('HELLO')
        expect(await replyOf(other, port)).toBe('HELLO')
        const found = (await sandbox.ports()).map(({ address, sessionId }) => [address, sessionId])
        expect(found.sort()).toEqual([
          ['127.0.0.1', 'a'],
          ['::1', 'b'],
        ])
        server.close()
      },
      { options: { isolation: 'workspace' } },
    ))

  it('does not lead to the proxy of the session', async () => {
    // The thread of the proxies stays.
    await using sandbox = new Sandbox({
      isolation: { preset: 'workspace', network: { allow: ['example.com:443'] } },
    })
    const session = await sandbox.createSession()
    const { stdout } = await session.exec('echo ${HTTP_PROXY##*:}')
    expect(Number(stdout)).toBeGreaterThan(0)
    expect(await rejectionOf(session.connect(Number(stdout)))).toMatchObject({ code: 'PORT_CLOSED' })
    expect(await session.ports()).toEqual([])
  })
})

/** What a server on this local port replies. */
async function replyAt(port: number): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  socket.end('hello')
  return text(socket)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1').on('error', () => resolve(true))
    socket.once('connect', () => {
      socket.destroy()
      resolve(false)
    })
  })
}

async function expectFree(port: number): Promise<void> {
  const [error] = await once(connect(port, '127.0.0.1'), 'error')
  expect(error.code).toMatch(/ECONNREFUSED|ConnectionRefused/)
}

describe('sandbox.forward', () => {
  it('opens a local port that leads inside, also before a program listens, until it is closed', () =>
    withSandbox(async ({ sandbox }) => {
      const session = await sandbox.createSession()
      const port = await freePort()
      const local = await sandbox.forward(port)
      expect(local.url).toBe(`http://127.0.0.1:${local.port}`)
      const early = connect(local.port, '127.0.0.1').on('error', () => {})
      await once(early, 'close')
      // The program has its port, which is one of this machine.
      await startEcho(session, port)
      expect(await replyAt(local.port)).toBe('HELLO')
      expect(await rejectionOf(sandbox.forward(port, { local: local.port }))).toMatchObject({
        code: 'PORT_IN_USE',
      })
      const open = connect(local.port, '127.0.0.1').on('error', () => {})
      await once(open, 'connect')
      const end = once(open, 'close')
      await Promise.all([local.close(), local.close(), end])
      expect(local.url).toBe(`http://127.0.0.1:${local.port}`)
      await expectFree(local.port)
      {
        await using named = await sandbox.forward(port, { local: local.port, sessionId: session.id })
        expect(named.port).toBe(local.port)
        expect(await replyAt(named.port)).toBe('HELLO')
      }
      await expectFree(local.port)
    }))

  it('has the same port as a sandbox with a network of its own, or a free one if it is taken', () =>
    withSandbox(
      async ({ sandbox }) => {
        const session = await sandbox.createSession()
        const port = await freePort()
        const same = await sandbox.forward(port)
        expect(same.port).toBe(port)
        await startEcho(session, port)
        expect(await replyAt(port)).toBe('HELLO')
        const other = await sandbox.forward(port)
        expect(other.port).not.toBe(port)
        expect(await replyAt(other.port)).toBe('HELLO')
      },
      { options: { isolation: 'workspace' } },
    ))

  it('leads to the session that it names', () =>
    withSandbox(
      async ({ sandbox }) => {
        const [a, b] = [await sandbox.createSession({ id: 'a' }), await sandbox.createSession({ id: 'b' })]
        const port = await freePort()
        await startEcho(b, port)
        const toA = await sandbox.forward(port, { sessionId: 'a', local: 0 })
        const toB = await sandbox.forward(port, { sessionId: 'b', local: 0 })
        const toAny = await sandbox.forward(port, { local: 0 })
        expect([await replyAt(toA.port).catch(() => ''), await replyAt(toB.port)]).toEqual(['', 'HELLO'])
        expect(await replyAt(toAny.port)).toBe('HELLO')
        await a.delete()
        await b.delete()
        await Promise.all([expectFree(toA.port), expectFree(toB.port)])
        await toAny.close()
      },
      { options: { isolation: 'workspace' } },
    ))

  it('ends when the shell of its session exits without surviveExit', () =>
    withSandbox(async ({ sandbox }) => {
      const exits = {
        exit: (id: string) => rejectionOf(sandbox.exec('exit 3', { sessionId: id })),
        kill: async (id: string) => {
          const { stdout } = await sandbox.exec('echo $$', { sessionId: id })
          await sandbox.exec(`kill -KILL ${stdout}`)
        },
      }
      for (const [id, exit] of Object.entries(exits)) {
        const session = await sandbox.createSession({ id, surviveExit: false })
        const local = await sandbox.forward(1, { local: 0, sessionId: id })
        expect(await isFree(local.port)).toBe(false)
        await exit(id)
        await holds(() => isFree(local.port))
        for (const begin of [
          () => sandbox.forward(1, { local: 0, sessionId: id }),
          () => session.hold('a person'),
        ]) {
          const { code, message } = (await rejectionOf(begin())) as Error & { code?: string }
          expect({ code, message }).toEqual({
            code: 'SESSION_TERMINATED',
            message: `the shell of session '${id}' ${id === 'exit' ? 'exited with code 3' : 'was killed'}`,
          })
        }
        await sandbox.deleteSession(id)
      }
    }))

  it('of a default session does not end with the one before', () =>
    withSandbox(async ({ sandbox }) => {
      const slow = await sandbox.startProcess(`trap '' TERM HUP; echo ready; while :; do sleep 1; done`)
      await slow.waitForLog('ready')
      const deleting = sandbox.deleteSession('default')
      const ran = sandbox.exec('true')
      const local = await sandbox.forward(1, { local: 0, sessionId: 'default' })
      await Promise.all([ran, deleting])
      expect(await isFree(local.port)).toBe(false)
      await local.close()
    }))

  it('survives the exit of a shell that its session survives', () =>
    withSandbox(async ({ sandbox }) => {
      const local = await sandbox.forward(1, { local: 0, sessionId: 'default' })
      await sandbox.exec('exit 3')
      await sandbox.exec('true')
      expect(await isFree(local.port)).toBe(false)
      await local.close()
    }))

  it('ends with the session and the sandbox, and rejects bad ports', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { id } = await sandbox.createSession()
        const ofSession = await sandbox.forward(1, { local: 0, sessionId: id })
        const ofSandbox = await sandbox.forward(1)
        for (const bad of [
          () => sandbox.forward(0),
          () => sandbox.forward(1, { local: -1 }),
          () => sandbox.forward(1, { remote: 1 } as never),
          () => sandbox.forward(1, 3000 as never),
        ])
          expect(await rejectionOf(bad())).toMatchObject({ code: 'INVALID_OPTION' })
        await sandbox.deleteSession(id)
        await expectFree(ofSession.port)
        expect(await rejectionOf(sandbox.forward(1, { sessionId: id }))).toMatchObject({
          code: 'SESSION_NOT_FOUND',
        })
        const meanwhile = sandbox.forward(1).catch((error) => error)
        await sandbox.destroy()
        await expectFree(ofSandbox.port)
        expect(await rejectionOf(sandbox.forward(1))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
        const left = await meanwhile
        if (left.port !== undefined) await expectFree(left.port)
        await ofSandbox.close()
      },
      { destroys: true },
    ))
})
