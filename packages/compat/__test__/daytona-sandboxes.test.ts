/** The life of sandboxes, by the official SDK of Daytona. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import net from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import {
  Daytona,
  DaytonaAuthenticationError,
  DaytonaConflictError,
  DaytonaNotFoundError,
  DaytonaRateLimitError,
  type ListSandboxesQuery,
} from '@daytonaio/sdk'
import { serveDaytona, serveE2b } from '@nacre/compat'
import { OptionError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { hasGroups } from '../../../__test__/helpers/in-workspace.js'
import { outerAddress } from '../../../__test__/helpers/serving.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { type DaytonaRecord, dueOf, newRecord } from '../lib/daytona/record.js'
import type { Hosted } from '../lib/hosted.js'
import { directories, type Place, withDaytona, withDaytonaSandbox } from './daytona-place.js'
import { request } from './place.js'

async function inVarTmp(test: (place: Place, base: string) => Promise<void>): Promise<void> {
  const base = temporary('nacre-daytona-', '/var/tmp')
  await withDaytona((place) => test(place, base), { root: path.join(base, 'daytona') })
}

async function idsOf({ daytona }: Place, query?: ListSandboxesQuery): Promise<string[]> {
  const ids: string[] = []
  for await (const { id } of daytona.list(query)) ids.push(id)
  return ids
}

describe('sandboxes', () => {
  it('are created, found by id and name, and deleted', () =>
    withDaytona(async ({ create, daytona, root }) => {
      const sandbox = await create({ name: 'named', labels: { a: 'b' }, autoStopInterval: 5, public: true })
      expect(sandbox).toMatchObject({ name: 'named', state: 'started', autoStopInterval: 5, public: true })
      for (const key of [sandbox.id, 'named']) expect((await daytona.get(key)).id).toBe(sandbox.id)
      expect((await daytona.get('named')).labels).toMatchObject({ a: 'b' })
      expect(await rejectionOf(create({ name: 'named' }))).toBeInstanceOf(DaytonaConflictError)
      expect(await sandbox.setLabels({ c: 'd' })).toEqual({ c: 'd' })
      await sandbox.setAutostopInterval(7)
      await sandbox.setAutoDeleteInterval(9)
      await sandbox.setTtl(60)
      await sandbox.refreshActivity()
      await sandbox.refreshData()
      expect(sandbox).toMatchObject({ labels: { c: 'd' }, autoStopInterval: 7, autoDeleteInterval: 9 })
      expect((await sandbox.getMetricsLatest()).cpuCount).toBeGreaterThan(0)
      expect(await sandbox.getUserHomeDir()).toBe('/home/daytona')
      expect(await sandbox.getWorkDir()).toBe('/home/daytona')
      await sandbox.delete()
      expect(directories(root)).toEqual([])
      expect(await rejectionOf(daytona.get(sandbox.id))).toBeInstanceOf(DaytonaNotFoundError)
    }))

  it('are listed by labels, states, names and pages', () =>
    withDaytona(async (place) => {
      const { create, daytona, server } = place
      const first = await create({ name: 'first', labels: { kind: 'x & y' } })
      const second = await create({ name: 'second', labels: { kind: 'x & y' } })
      const third = await create({ name: 'third' })
      const both = [first.id, second.id].sort()
      expect((await idsOf(place, { labels: { kind: 'x & y' }, limit: 1 })).sort()).toEqual(both)
      expect(await idsOf(place, { name: 'thi' })).toEqual([third.id])
      await second.stop()
      expect(await idsOf(place, { states: ['stopped'] })).toEqual([second.id])
      expect((await idsOf(place, { states: ['started', 'stopped'] })).sort()).toEqual(
        [...both, third.id].sort(),
      )
      expect((await rejectionOf(idsOf(place, { minCpu: 2 }))).message).toContain('the filter minCpu')
      const page = `${server.url}/sandbox/paginated?page=2&limit=2`
      const old = await request(page, { headers: { authorization: `Bearer ${server.key}` } })
      expect(JSON.parse(old.text)).toMatchObject({ items: [{}], total: 3, page: 2, totalPages: 2 })
      await daytona.delete(third)
      expect((await idsOf(place)).sort()).toEqual(both)
    }))

  it('keep their files, and not their processes, when they are stopped', () =>
    withDaytonaSandbox(async (sandbox) => {
      await sandbox.process.executeCommand('echo kept > kept; (sleep 1000 &) > /dev/null 2>&1')
      await sandbox.process.createSession('busy')
      await sandbox.process.executeSessionCommand('busy', { command: 'sleep 1000', runAsync: true })
      await sandbox.updateEnv({ LATER: 'later' })
      await sandbox.process.createSession('new')
      const { output } = await sandbox.process.executeSessionCommand('new', { command: 'echo $LATER' })
      expect(output).toBe('later\n')
      await sandbox.stop()
      expect(sandbox.state).toBe('stopped')
      const refused = await rejectionOf(sandbox.process.executeCommand('true'))
      expect(refused).toMatchObject({ statusCode: 400, message: expect.stringContaining('not started') })
      await sandbox.start()
      expect(sandbox.state).toBe('started')
      expect((await sandbox.process.executeCommand('cat kept; pgrep sleep; echo $LATER')).result).toBe(
        'kept\nlater\n',
      )
    }))

  it('go on with their sessions after a stop, until clients create these again', () =>
    withDaytonaSandbox(async (sandbox, { root }) => {
      const { process } = sandbox
      const run = async (session: string, command: string) =>
        (await process.executeSessionCommand(session, { command })).stdout
      for (const id of ['used', 'busy', 'made again', 'ended']) await process.createSession(id)
      // Without control groups, what a shell has in the background cannot be stopped, and the shells are lost.
      const set = `x='a  b'; f() { echo "f $1"; }; mkdir -p ~/deep; cd ~/deep; ${hasGroups ? 'sleep 1000 &' : ''}`
      for (const id of ['used', 'busy', 'made again']) await run(id, set)
      await process.executeSessionCommand('busy', { command: 'touch ~/running; sleep 1000', runAsync: true })
      await process.executeSessionCommand('busy', { command: 'touch ~/late', runAsync: true })
      await process.executeSessionCommand('ended', { command: 'exit', runAsync: true })
      await until(
        async () => (await process.executeCommand('ls')).result?.includes('running') || undefined,
        () => 'it does not run',
      )
      for (let time = 0; time < 2; time++) {
        await sandbox.stop()
        expect(statSync(path.join(root, 'records', `${sandbox.id}.nacre`)).mode & 0o777).toBe(0o600)
        await sandbox.start()
        for (const id of ['used', 'busy'])
          expect(await run(id, 'echo "$x $PWD"; f 1; jobs; ls ~')).toBe(
            'a  b /home/daytona/deep\nf 1\ndeep\nrunning\n',
          )
        expect((await rejectionOf(process.createSession('used'))).message).toContain('exists already')
      }
      await process.createSession('made again')
      expect(await run('made again', 'echo "${x-none} $PWD"')).toBe('none /home/daytona\n')
      expect((await process.executeCommand('pgrep sleep')).result).toBe('')
    }))

  it('stop and start although their shells cannot be kept or brought back', () =>
    withDaytonaSandbox(async (sandbox, { root }) => {
      const { process } = sandbox
      await process.createSession('session')
      await process.executeSessionCommand('session', { command: 'x=1; echo kept > kept' })
      const archive = path.join(root, 'records', `${sandbox.id}.nacre`)
      mkdirSync(archive)
      await sandbox.stop()
      rmSync(archive, { recursive: true })
      await sandbox.start()
      await process.createSession('session')
      await process.executeSessionCommand('session', { command: 'x=2' })
      await sandbox.stop()
      writeFileSync(archive, 'damaged')
      await sandbox.start()
      expect((await process.listSessions()).map(({ sessionId }) => sessionId)).toEqual([])
      expect((await process.executeCommand('cat kept')).result).toBe('kept\n')
    }))

  it('are deleted when they stop, if they are ephemeral', () =>
    withDaytona(async ({ create, root }) => {
      const sandbox = await create({ ephemeral: true })
      await sandbox.stop()
      expect(sandbox.state).toBe('destroyed')
      expect(directories(root)).toEqual([])
    }))

  it('report their states as events', () =>
    withDaytonaSandbox(async (sandbox, { daytona }) => {
      const other = await daytona.get(sandbox.id)
      await sandbox.stop()
      await other.waitUntilStopped(20)
      const started = (async () => {
        await other.waitUntilStarted(20)
        return other.state
      })()
      await sandbox.start()
      expect(await started).toBe('started')
    }))

  it('are limited in number', () =>
    withDaytona(
      async ({ create }) => {
        const first = await create()
        expect(await rejectionOf(create())).toBeInstanceOf(DaytonaRateLimitError)
        await first.stop()
        await create()
        expect(await rejectionOf(first.start())).toBeInstanceOf(DaytonaRateLimitError)
      },
      { maxSandboxes: 1 },
    ))

  it('refuse what would not hold, by its name', () =>
    withDaytonaSandbox(async (sandbox, { create, server, daytona }) => {
      for (const params of [{ volumes: [{ volumeId: 'v', mountPath: '/v' }] }, { autoPauseInterval: 5 }])
        expect((await rejectionOf(create(params))).message).toContain(
          `nacre does not support ${Object.keys(params)[0]}`,
        )
      for (const call of [
        sandbox.archive(),
        sandbox.fork(),
        sandbox.createSshAccess(),
        sandbox.createSnapshot('s'),
        daytona.volume.list(),
      ])
        expect(await rejectionOf(call)).toMatchObject({ statusCode: 501 })
      await using wrong = new Daytona({ apiKey: `dtn_${'0'.repeat(40)}`, apiUrl: server.url })
      expect(await rejectionOf(wrong.get(sandbox.id))).toBeInstanceOf(DaytonaAuthenticationError)
    }))
})

it('what is due for a sandbox depends on its state, its use and its intervals', () => {
  const minute = 60_000
  const now = 100 * minute
  const due = (state: 'running' | 'paused', changes: Partial<DaytonaRecord>, connections = 0) => {
    const given = { labels: {}, env: {}, user: '', snapshot: '', isPublic: false, network: 'host' as const }
    const intervals = { autoStop: 15, autoArchive: 0, autoDelete: -1, ttl: 0 }
    const record = { ...newRecord({ ...given, ...intervals }), startedAt: 0, lastUse: minute, ...changes }
    const busy = new Set(Array.from({ length: connections }, () => ({})))
    return dueOf({ state, record, connections: busy } as unknown as Hosted<DaytonaRecord>, now)
  }
  expect(due('running', {})).toEqual({ at: 16 * minute, end: 'pause', snapshot: 'shells' })
  expect(due('running', { autoStop: 0 })).toBeUndefined()
  expect(due('running', {}, 1)?.at).toBe(now + 15 * minute)
  expect(due('running', { ttl: 3 })).toEqual({ at: 3 * minute, end: 'remove' })
  expect(due('paused', {})).toBeUndefined()
  expect(due('paused', { autoDelete: 2 })).toBeUndefined()
  const stopped = { stoppedAt: minute, autoDelete: 2 }
  expect(due('paused', stopped)).toEqual({ at: 3 * minute, end: 'remove' })
  expect(due('paused', { ...stopped, ttl: 2 })).toEqual({ at: 2 * minute, end: 'remove' })
})

describe('isolation', () => {
  it('hides other sandboxes and the keys, and keeps files of this machine', () =>
    // Sandboxes have a /tmp of their own.
    inVarTmp(async ({ create, root }, base) => {
      const e2b = await serveE2b({ port: 0, root: path.join(base, 'e2b') })
      try {
        const other = await create()
        await other.fs.uploadFile(Buffer.from('SECRET'), 'secret')
        const { process } = await create()
        for (const command of [
          `cat ${root}/id`,
          `cat ${base}/e2b/id`,
          `ls ${root}/sandboxes/*`,
          'touch /etc/nacre-compat',
          'cat /home/daytona/secret',
        ])
          expect((await process.executeCommand(command)).exitCode, command).not.toBe(0)
      } finally {
        await e2b.close()
      }
    }))

  it('keeps absolute paths of the program from the home and the /tmp of this machine', () =>
    withDaytonaSandbox(async ({ fs, process }) => {
      await fs.uploadFile(Buffer.from('1'), '/tmp/nacre-daytona-own')
      expect((await process.executeCommand('cat /tmp/nacre-daytona-own')).result).toBe('1')
      expect((await process.executeCommand('echo 2 > /home/daytona/x; cat ~/x; pwd')).result).toBe(
        '2\n/home/daytona\n',
      )
      expect(() => readFileSync('/tmp/nacre-daytona-own')).toThrow('ENOENT')
      expect(() => readFileSync('/home/daytona/x')).toThrow('ENOENT')
    }))

  it('has no network if the client does not want any', () =>
    withDaytona(async ({ create, server }) => {
      const connect = `exec 3<>/dev/tcp/127.0.0.1/${new URL(server.url).port}`
      expect((await (await create()).process.executeCommand(connect)).exitCode).toBe(0)
      const alone = await create({ networkBlockAll: true })
      expect((await alone.process.executeCommand(connect)).exitCode).not.toBe(0)
      const outer = outerAddress()
      const listening = createServer((_, response) => response.end('reached')).listen(0, outer)
      await once(listening, 'listening')
      const fetch = `curl -sS http://${outer}:${(listening.address() as net.AddressInfo).port}/`
      const reached = async (options: object) =>
        (await (await create(options)).process.executeCommand(fetch)).result?.includes('reached')
      expect(await reached({ domainAllowList: 'example.com, *.example.org' })).toBe(false)
      expect(await reached({ domainAllowList: 'example.com', networkAllowList: `${outer}/32` })).toBe(true)
      listening.close()
      const refused = await rejectionOf(create({ networkAllowList: '10.0.0.0/8' }))
      expect(refused).toMatchObject({
        statusCode: 501,
        message: expect.stringContaining('ranges of addresses'),
      })
    }))
})

it('a sandbox without a network is refused where nothing isolates it', () =>
  withDaytona(
    async ({ create }) => {
      const refused = await rejectionOf(create({ networkBlockAll: true }))
      expect(refused).toMatchObject({ statusCode: 501, message: expect.stringContaining("isolation 'none'") })
    },
    { isolation: 'none' },
  ))

it('previews pass requests on, by the id and by signed addresses', () =>
  withDaytonaSandbox(async (sandbox, { server }) => {
    await sandbox.fs.uploadFile(
      Buffer.from(`
        const server = require('node:http').createServer((request, response) => response.end(request.url))
        server.listen(0, '127.0.0.1', () => console.log(server.address().port))`),
      'server.cjs',
    )
    await sandbox.process.createSession('server')
    const run = { command: 'exec node server.cjs', runAsync: true }
    const { cmdId } = await sandbox.process.executeSessionCommand('server', run)
    const port = await until(
      async () => Number((await sandbox.process.getSessionCommandLogs('server', cmdId)).stdout) || undefined,
      () => 'no port',
    )
    const origin = new URL(server.url).origin
    const get = (url: string) => request(`${origin}/path`, { headers: { host: new URL(url).host } })
    const { url } = await sandbox.getPreviewLink(port)
    expect(await get(url)).toEqual({ status: 200, text: '/path' })
    // Its body would be lost, or be taken for what follows.
    const upgrade = {
      host: new URL(url).host,
      connection: 'upgrade',
      upgrade: 'websocket',
      'content-length': 4,
    }
    expect((await request(`${origin}/path`, { headers: upgrade, body: 'body' })).status).toBe(400)
    const signed = await sandbox.getSignedPreviewUrl(port, 60)
    expect(await get(signed.url)).toEqual({ status: 200, text: '/path' })
    await sandbox.expireSignedPreviewUrl(port, signed.token)
    expect((await get(signed.url)).status).toBe(502)
    expect((await get(`http://${new URL(server.url).port}-${sandbox.id}.localhost`)).status).toBe(502)
  }))

describe('the server', () => {
  it('brings all sandboxes back, stopped, with the same key', () =>
    withDaytona(async ({ root }) => {
      const own = path.join(path.dirname(root), 'own')
      const ids: string[] = []
      let key = ''
      await withDaytona(
        async ({ create, server, daytona }) => {
          key = server.key
          const running = await create({ name: 'kept' })
          await running.fs.uploadFile(Buffer.from('kept'), 'kept')
          await running.process.createSession('session')
          await running.process.executeSessionCommand('session', { command: 'x=kept; cd /tmp' })
          const old = await create()
          ids.push(running.id, old.id)
          await daytona.stop(old)
        },
        { root: own },
      )
      const change = (id = '', changes: Partial<DaytonaRecord>) => {
        const file = path.join(own, 'records', `${id}.json`)
        writeFileSync(file, JSON.stringify({ ...JSON.parse(readFileSync(file, 'utf8')), ...changes }))
      }
      // As if a server was killed while the first ran, and the time of the second was up since.
      change(ids[0], { stoppedAt: 0, lastUse: 1, autoDelete: 1 })
      change(ids[1], { startedAt: 1, ttl: 1 })
      await withDaytona(
        async ({ server, daytona }) => {
          expect(server.key).toBe(key)
          await until(
            () => directories(own).length === 1 || undefined,
            () => directories(own).join(),
          )
          const sandbox = await daytona.get('kept')
          expect(sandbox.state).toBe('stopped')
          await sandbox.start()
          expect((await sandbox.fs.downloadFile('kept')).toString()).toBe('kept')
          const show = { command: 'echo $x $PWD' }
          expect((await sandbox.process.executeSessionCommand('session', show)).stdout).toBe('kept /tmp\n')
        },
        { root: own },
      )
    }))

  it('gives sessions of clients the place of those from before a stop', () =>
    withDaytona(async ({ root }) => {
      const own = path.join(path.dirname(root), 'own')
      let id = ''
      await withDaytona(
        async ({ create }) => {
          const sandbox = await create()
          id = sandbox.id
          for (const name of ['old', 'used']) await sandbox.process.createSession(name)
        },
        { root: own },
      )
      const file = path.join(own, 'records', `${id}.json`)
      const record = JSON.parse(readFileSync(file, 'utf8'))
      const [, [, shell]] = record.kept.sessions
      const many = Array.from({ length: 254 }, (_, number) => [`idle ${number}`, shell])
      record.kept.sessions.push(...many)
      writeFileSync(file, JSON.stringify(record))
      await withDaytona(
        async ({ daytona }) => {
          const sandbox = await daytona.get(id)
          await sandbox.start()
          const { process } = sandbox
          const { stdout } = await process.executeSessionCommand('used', { command: 'echo used' })
          expect(stdout).toBe('used\n')
          await process.createSession('new')
          const sessions = (await process.listSessions()).map(({ sessionId }) => sessionId)
          expect(sessions).toHaveLength(256)
          expect(sessions).not.toContain('old')
          for (const name of ['used', 'new']) expect(sessions).toContain(name)
        },
        { root: own },
      )
    }))

  it('checks its options and its directory', () =>
    withDaytona(async ({ root, server }) => {
      const taken = await rejectionOf(serveDaytona({ root }))
      expect(taken).toBeInstanceOf(OptionError)
      expect(taken.message).toContain('in use by another server')
      const other = path.join(path.dirname(root), 'e2b')
      mkdirSync(other, { mode: 0o700 })
      writeFileSync(path.join(other, 'id'), `e2b_${'0'.repeat(40)}\n`)
      expect((await rejectionOf(serveDaytona({ port: 0, root: other }))).message).toContain('another API')
      const port = Number(new URL(server.url).port)
      expect((await rejectionOf(serveDaytona({ port }))).message).toContain('choose another port')
    }))

  it('lets a program end that deletes nothing', () =>
    withDaytona(async ({ server, root, tag }) => {
      const file = path.join(__dirname, `${tag}.mjs`)
      writeFileSync(
        file,
        `import { Daytona } from '@daytonaio/sdk'
        const sandbox = await new Daytona().create({ envVars: { NACRE_TEST_TAG: '${tag}' } })
        console.log((await sandbox.process.executeCommand('echo done')).result)`,
      )
      try {
        const env = { ...process.env, ...server.env }
        // It would otherwise run for more than 100 s.
        const options = { env, timeout: 40_000 }
        const { stdout } = await promisify(execFile)('node', [file], options)
        expect(stdout).toBe('done\n\n')
        expect(directories(root)).toHaveLength(1)
      } finally {
        rmSync(file)
      }
    }))

  it('answers no page in a browser, no other name and no client without the key', () =>
    withDaytonaSandbox(async (sandbox, { server }) => {
      const { origin, port } = new URL(server.url)
      const headers = { authorization: `Bearer ${server.key}` }
      const toolbox = `${origin}/toolbox/${sandbox.id}/work-dir`
      for (const url of [`${server.url}/sandbox`, toolbox]) {
        expect((await request(url, { headers })).status).toBe(200)
        expect((await request(url, { headers: { ...headers, host: 'evil.example' } })).status).toBe(403)
        expect((await request(url, { headers: { ...headers, origin: 'http://localhost:1' } })).status).toBe(
          403,
        )
        expect((await request(url)).status).toBe(401)
        expect((await request(url, { headers: { authorization: 'Bearer dtn_0' } })).status).toBe(401)
      }
      const pty = `ws://127.0.0.1:${port}/toolbox/${sandbox.id}/process/pty/create-connect?id=a`
      const socketIo = `ws://127.0.0.1:${port}/api/socket.io/?EIO=4`
      for (const [url, more, status] of [
        [pty, {}, 401],
        [pty, { ...headers, origin: 'http://localhost:1' }, 403],
        [pty, { ...headers, host: 'evil.example' }, 403],
        [socketIo, { origin: 'http://localhost:1' }, 403],
        [`ws://127.0.0.1:${port}/api/other`, headers, 501],
      ] as const)
        expect(await rejectedStatus(url, more), url).toBe(status)
    }))

  it('sends events only to clients that send the key', () =>
    withDaytonaSandbox(async (sandbox, { server }) => {
      const { port } = new URL(server.url)
      const listen = async (token: string) => {
        const client = new WebSocket(`ws://127.0.0.1:${port}/api/socket.io/?EIO=4`)
        const texts: string[] = []
        client.on('message', (data) => texts.push(String(data)))
        await once(client, 'open')
        client.send(`40${JSON.stringify({ token })}`)
        await until(
          () => texts.some((text) => /^4[04]/.test(text)) || undefined,
          () => texts.join('\n'),
        )
        return { client, texts }
      }
      const own = await listen(server.key)
      const other = await listen('dtn_0')
      try {
        await sandbox.stop()
        await until(
          () => own.texts.some((text) => text.includes('sandbox.state.updated')) || undefined,
          () => own.texts.join('\n'),
        )
        expect(other.texts.at(-1)).toMatch(/^44/)
      } finally {
        own.client.terminate()
        other.client.terminate()
      }
    }))

  it('sends events although many clients do not send the key', () =>
    withDaytonaSandbox(async (sandbox, { server }) => {
      const url = `ws://127.0.0.1:${new URL(server.url).port}/api/socket.io/?EIO=4`
      const idle = Array.from({ length: 64 }, () => new WebSocket(url))
      const own = new WebSocket(url)
      try {
        for (const client of idle) client.on('error', () => {})
        await Promise.all(idle.map((client) => once(client, 'message')))
        const ended = once(idle[0] as WebSocket, 'close')
        const texts: string[] = []
        own.on('message', (data) => texts.push(String(data)))
        if (own.readyState !== WebSocket.OPEN) await once(own, 'open')
        own.send(`40${JSON.stringify({ token: server.key })}`)
        const received = (part: string) =>
          until(
            () => texts.some((text) => text.includes(part)) || undefined,
            () => texts.join('\n'),
          )
        await received('40{')
        await sandbox.stop()
        await received('sandbox.state.updated')
        await ended
      } finally {
        for (const client of [...idle, own]) client.terminate()
      }
    }))

  it('limits the connections of a sandbox, and frees them', () =>
    withDaytonaSandbox(async ({ id, process }, { server }) => {
      await process.createSession('s')
      const run = { command: 'cat', runAsync: true }
      const { cmdId } = await process.executeSessionCommand('s', run)
      const { port } = new URL(server.url)
      const headers = { authorization: `Bearer ${server.key}` }
      const logs = `process/session/s/command/${cmdId}/logs?follow=true`
      const url = `ws://127.0.0.1:${port}/toolbox/${id}/${logs}`
      const clients = Array.from({ length: 512 }, () => new WebSocket(url, { headers }))
      await Promise.all(clients.map((client) => once(client, 'open')))
      expect(await rejectionOf(process.executeCommand('true'))).toBeInstanceOf(DaytonaRateLimitError)
      expect(await rejectedStatus(url, headers)).toBe(429)
      for (const client of clients) client.terminate()
      const freed = () => process.executeCommand('echo freed').catch(() => undefined)
      expect((await until(freed, () => 'not freed')).result).toBe('freed\n')
    }))

  it('survives what no client of Daytona sends', () =>
    withDaytonaSandbox(async (sandbox, { server }) => {
      const { origin, port } = new URL(server.url)
      const headers = { authorization: `Bearer ${server.key}` }
      const toolbox = `${origin}/toolbox/${sandbox.id}`
      const post = async (url: string, body: string, more: object = {}) =>
        (await request(url, { method: 'POST', headers: { ...headers, ...more }, body })).status
      for (const body of [
        '[]',
        '{',
        '{"name":1}',
        '{"labels":{"a":1}}',
        '{"autoStopInterval":-1}',
        '{"env":[]}',
      ])
        expect(await post(`${server.url}/sandbox`, body), body).toBe(400)
      for (const body of [
        '',
        '{"command":" "}',
        '{"command":"true","timeout":-1}',
        '{"command":"a\\u0000b"}',
      ])
        expect(await post(`${toolbox}/process/execute`, body), body).toBe(400)
      expect(await post(`${toolbox}/process/execute`, `"${'x'.repeat(33 * 1024 * 1024)}"`)).toBe(413)
      const long = 'x'.repeat(2 * 1024 * 1024)
      for (const [url, given] of [
        [`${server.url}/sandbox`, { labels: { long } }],
        [`${toolbox}/process/session`, { sessionId: long }],
        [`${toolbox}/process/pty`, { id: 'long', envs: { long } }],
      ] as const)
        expect(await post(url, JSON.stringify(given)), url).toBe(413)
      for (const path of ['/files/%zz', '/process/session/%zz', '/lsp/start']) {
        const { status } = await request(toolbox + path, { headers })
        expect([400, 501], path).toContain(status)
      }
      expect((await request(`${origin}/toolbox/%zz/work-dir`, { headers })).status).toBe(400)
      expect((await request(`${origin}/toolbox/`, { headers })).status).toBe(404)
      expect((await request(`${server.url}/sandbox?limit=x`, { headers })).status).toBe(400)
      expect((await request(`${server.url}/sandbox?labels={`, { headers })).status).toBe(400)
      expect((await request(`${server.url}/sandbox/__proto__`, { headers })).status).toBe(404)
      expect(await post(`${toolbox}/files/bulk-upload`, 'x')).toBe(400)
      const form = { 'content-type': 'multipart/form-data; boundary=a' }
      expect(await post(`${toolbox}/files/bulk-upload`, '--a\r\n', form)).toBe(400)
      const file = '--a\r\ncontent-disposition: form-data; name="files[0].file"\r\n\r\nx\r\n--a--\r\n'
      expect(await post(`${toolbox}/files/bulk-upload`, file, form)).toBe(400)
      for (const frame of [Buffer.from('garbage garbage garbage'), Buffer.alloc(64, 0xff)]) {
        const socket = net.connect(Number(port), '127.0.0.1')
        socket.on('error', () => {})
        socket.write(
          [
            `GET /toolbox/${sandbox.id}/process/pty/create-connect?id=${frame.length} HTTP/1.1`,
            'host: localhost',
            `authorization: ${headers.authorization}`,
            'connection: upgrade',
            'upgrade: websocket',
            'sec-websocket-version: 13',
            'sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==',
            '',
            '',
          ].join('\r\n'),
        )
        await once(socket, 'data')
        socket.write(frame)
        await once(socket, 'close')
      }
      expect((await sandbox.process.executeCommand('echo alive')).result).toBe('alive\n')
    }))
})

/** The status with which the server refuses a WebSocket. */
async function rejectedStatus(url: string, headers: Record<string, string>): Promise<number | undefined> {
  const client = new WebSocket(url, { headers })
  client.on('error', () => {})
  const [, reply] = await once(client, 'unexpected-response')
  reply.resume()
  client.terminate()
  return reply.statusCode
}
