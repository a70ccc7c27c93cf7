/** Sandboxes that clients suspend on a server, download, and send to another server, as through an object store. */
import { createHash } from 'node:crypto'
import { createReadStream, mkdirSync, readdirSync, readFileSync, realpathSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { type Serving, serve } from '@nacre/server'
import { Sandbox, type SandboxOptions } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
import { expectGone, startHost } from '../helpers/host.js'
import { requestsTo } from '../helpers/http.js'
import { withSmallDisk } from '../helpers/namespaces.js'
import { freePort } from '../helpers/serving.js'
import { cuttingProxy } from '../helpers/tcp-proxy.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

/** A server with a sandbox in directories of its own, as on another machine. */
async function machine(options: SandboxOptions = {}) {
  const base = realpathSync(temporary('nacre-archives-'))
  const cwd = path.join(base, 'project')
  const place = { cwd, stateDir: path.join(base, 'state') }
  mkdirSync(cwd)
  const sandbox = new Sandbox({ ...place, workspace: 'copy-on-write', ...options })
  const serving = await serve(sandbox, { port: 0 })
  const client = new SandboxClient({ url: serving.url })
  const end = async () => {
    await client.close()
    await serving.close()
    await sandbox.destroy()
  }
  const stored = () => readdirSync(path.join(place.stateDir, 'archives'))
  return { ...place, serving, client, stored, [Symbol.asyncDispose]: end }
}

async function bytesOf(stream: ReadableStream<Uint8Array>): Promise<Uint8Array> {
  const pieces: Uint8Array[] = []
  for await (const piece of stream) pieces.push(piece)
  return Buffer.concat(pieces)
}

/** Suspends the sandbox of a server in a directory with a session, and a file that does not compress. */
async function suspended({ client }: { client: SandboxClient }) {
  const session = await client.createSession({ id: 'build' })
  await session.exec('mkdir sub; cd sub; x=5; head -c 3000000 /dev/urandom > data')
  const sum = (await session.exec('sha256sum data')).stdout
  return { sum, ...(await client.suspend()) }
}

describe('archives on a server', () => {
  it('are written, read, deleted, and go on elsewhere', async () => {
    await using from = await machine()
    const { sum, archive, ...about } = await suspended(from)
    expect(about).toMatchObject({ files: 2, sessions: ['build'], missing: [] })
    expect(from.stored()).toEqual([`${archive}.nacre`])
    expect(statSync(path.join(from.stateDir, 'archives', `${archive}.nacre`)).mode & 0o777).toBe(0o600)
    // The sandbox has ended, and only its archive is there.
    expect(await rejectionOf(from.client.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await rejectionOf(from.client.suspend())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await from.client.archives.list()).toEqual([
      { id: archive, bytes: about.bytes, createdAt: expect.any(Date) },
    ])
    const file = path.join(temporary('nacre-store-'), 'agent-7.nacre')
    await writeFile(file, from.client.archives.readStream(archive))
    expect(statSync(file).size).toBe(about.bytes)
    await from.client.archives.delete(archive)
    expect(from.stored()).toEqual([])
    await using to = await machine()
    expect(await to.client.resume(createReadStream(file))).toEqual({ missing: [], differences: [] })
    const session = await to.client.getSession('build')
    expect((await session?.exec('echo $x $PWD; sha256sum data'))?.stdout).toBe(`5 ${to.cwd}/sub\n${sum}`)
    expect(to.stored()).toEqual([])
    // Once.
    const again = await rejectionOf(to.client.resume(readFileSync(file)))
    expect(again).toMatchObject({ code: 'SANDBOX_IN_USE' })
  })

  it('are read on after a broken connection, and in ranges', async () => {
    await using from = await machine()
    const { archive, bytes } = await suspended(from)
    const proxy = await cuttingProxy(from.serving.port, 700_000, 3)
    const client = new SandboxClient({ url: proxy.url, resume: true })
    const whole = readFileSync(path.join(from.stateDir, 'archives', `${archive}.nacre`))
    const read = await bytesOf(client.archives.readStream(archive))
    const sha = (data: Uint8Array) => createHash('sha256').update(data).digest('hex')
    expect([read.length, sha(read), proxy.cuts()]).toEqual([bytes, sha(whole), 3])
    await client.close()
    await proxy.close()
    const url = `${from.serving.url}/v1/archives/${archive}`
    const ranged = async (range: string) => {
      const response = await fetch(url, { headers: { range } })
      return [response.status, Buffer.from(await response.arrayBuffer())]
    }
    expect(await ranged('bytes=5-9')).toEqual([206, whole.subarray(5, 10)])
    expect(await ranged('bytes=-3')).toEqual([206, whole.subarray(-3)])
    expect(await ranged(`bytes=${bytes}-`)).toEqual([416, Buffer.alloc(0)])
    expect((await fetch(url, { method: 'HEAD' })).headers.get('content-length')).toBe(String(bytes))
  })

  it('are there for the next server with the same directory', async () => {
    await using from = await machine()
    const { archive } = await suspended(from)
    await from.serving.close()
    const { stateDir, cwd } = from
    await using sandbox = new Sandbox({ cwd, stateDir })
    await using serving: Serving = await serve(sandbox, { port: 0 })
    const client = new SandboxClient({ url: serving.url })
    expect((await client.archives.list()).map(({ id }) => id)).toEqual([archive])
    // What it reads is no use of the sandbox.
    const read = await bytesOf(client.archives.readStream(archive))
    expect(await rejectionOf(client.resume(read))).toMatchObject({ code: 'WORKSPACE_NOT_ENABLED' })
    await client.archives.delete(archive)
    expect(await rejectionOf(client.archives.delete(archive))).toMatchObject({ code: 'FILE_NOT_FOUND' })
    expect(await rejectionOf(bytesOf(client.archives.readStream(archive)))).toMatchObject({
      code: 'FILE_NOT_FOUND',
    })
    await client.close()
  })

  it('cannot be used if they are cut, other files or too large, and nothing is left of them', async () => {
    await using from = await machine()
    const { archive } = await suspended(from)
    const whole = await bytesOf(from.client.archives.readStream(archive))
    await using to = await machine()
    const rejected = { code: 'ARCHIVE_REJECTED' }
    for (const data of [new Uint8Array(), Buffer.from('hello'), whole.subarray(0, -1)])
      expect(await rejectionOf(to.client.resume(data))).toMatchObject(rejected)
    expect(await rejectionOf(to.client.resume(whole, { maxBytes: 1000 }))).toMatchObject(rejected)
    const failure = new Error('the store does not answer')
    const broken = async function* () {
      yield whole.subarray(0, 100_000)
      throw failure
    }
    expect(await rejectionOf(to.client.resume(broken()))).toBe(failure)
    const stop = new AbortController()
    const aborted = async function* () {
      yield whole.subarray(0, 100_000)
      stop.abort()
      yield whole.subarray(100_000)
    }
    const upload = to.client.resume(aborted(), { signal: stop.signal })
    expect(await rejectionOf(upload)).toMatchObject({ name: 'AbortError' })
    expect(await rejectionOf(to.client.resume(5 as never))).toMatchObject({ code: 'INVALID_OPTION' })
    // No attempt has used the sandbox.
    expect(await to.client.resume(whole)).toEqual({ missing: [], differences: [] })
    expect(to.stored()).toEqual([])
  })

  it('need space on the disk, and nothing is left of those that find none', async () => {
    const [directory, cwd] = [temporary('nacre-archives-disk-'), temporary('nacre-archives-cwd-')]
    const program = `(async () => {
      const [{ serve }, { SandboxClient }] = await Promise.all([import('@nacre/server'), import('nacre/client')])
      const sandbox = new Sandbox({ cwd: '${cwd}', stateDir: '${directory}', workspace: 'copy-on-write' })
      const serving = await serve(sandbox, { port: 0 })
      const client = new SandboxClient({ url: serving.url })
      for (const bytes of [6_000_000, 1000, 6_000_000, 3_000_000])
        await client.resume(Buffer.alloc(bytes)).catch((error) => print([error.code, error.kind].join()))
      print(require('fs').readdirSync('${directory}/archives').join())
      await client.close()
      await serving.close()
      await sandbox.destroy()
    })().catch((error) => print(String(error.stack)))`
    const host = startHost(program, withSmallDisk(directory))
    const [full, rejected] = ['NO_SPACE,limit', 'ARCHIVE_REJECTED,failed']
    const lines = [full, rejected, full, rejected, '']
    expect([await host.ended(), host.output()]).toEqual([0, `${lines.join('\n')}\n`])
    await expectGone(host.tag)
  })

  it('are named by ids, and not by paths', async () => {
    await using from = await machine()
    await suspended(from)
    const { call } = requestsTo(from.serving.url)
    for (const id of ['..%2F..%2Fproject', '%2Fetc%2Fpasswd', '.', '..%2Fkept', 'a%00b'])
      for (const method of ['GET', 'DELETE'])
        expect((await call(method, `/v1/archives/${id}`)).status, `${method} ${id}`).toBeGreaterThanOrEqual(
          400,
        )
    expect((await call('PUT', '/v1/archive?onDifference=ignore')).body.code).toBe('INVALID_OPTION')
    expect(from.stored().length).toBe(1)
  })

  it('go on in a server that awaits one', () =>
    withCli(async ({ start, root }) => {
      await using from = await machine()
      const { archive, sum } = await suspended(from)
      const port = String(await freePort())
      const [cwd, state] = ['there', 'state'].map((name) => path.join(path.dirname(root), name))
      mkdirSync(cwd as string)
      const words = ['serve', '--port', port, '--copy-on-write', '--cwd', `${cwd}`, '--state-dir', `${state}`]
      const server = start([...words, '--await-archive'], '')
      await server.printed('nacre listens')
      const client = new SandboxClient({ url: `http://127.0.0.1:${port}` })
      await client.resume(from.client.archives.readStream(archive))
      const session = await client.getSession('build')
      expect((await session?.exec('sha256sum data'))?.stdout).toBe(sum)
      await client.close()
      server.child.kill('SIGTERM')
      await server.ended
    }))

  it('are not those of a sandbox in another process', async () => {
    await using from = await machine()
    await using outer: Serving = await serve(from.client, { port: 0 })
    const client = new SandboxClient({ url: outer.url })
    expect(await rejectionOf(client.suspend())).toMatchObject({ code: 'REQUEST_REFUSED' })
    expect(await rejectionOf(client.archives.list())).toMatchObject({ code: 'REQUEST_REFUSED' })
    expect((await from.client.exec('echo on')).stdout).toBe('on\n')
    await client.close()
  })
})
