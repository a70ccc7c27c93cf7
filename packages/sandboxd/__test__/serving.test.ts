/** `serve` with sandboxd: its options, its listeners, its end. */
import { existsSync, symlinkSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { type SandboxdOptions, serve } from '@nacre/server'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../../../__test__/helpers/host.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { begun, ended } from './ended.js'
import { Place, statusName, withSandboxd } from './place.js'

const FREE = { port: 0 }

async function isClosed(port: number): Promise<boolean> {
  return fetch(`http://127.0.0.1:${port}/v1/health`).then(
    () => false,
    () => true,
  )
}

describe('the option sandboxd', () => {
  it('makes the root, and names what it listens on', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const root = path.join(directory, 'link/deep/root')
      symlinkSync(directory, path.join(directory, 'link'))
      const serving = await serve(sandbox, { ...FREE, sandboxd: { grpcPort: 0, restPort: 0, root } })
      const { sandboxd } = serving
      expect(sandboxd).toEqual({
        host: '127.0.0.1',
        grpcPort: expect.any(Number),
        restPort: expect.any(Number),
        root: path.join(directory, 'deep/root'),
      })
      expect(existsSync(path.join(directory, 'deep/root'))).toBe(true)
      await serving.close()
      expect(await isClosed(sandboxd?.restPort ?? 0)).toBe(true)
      const without = await serve(sandbox, { ...FREE, sandboxd: false })
      expect(without.sandboxd).toBeUndefined()
      await without.close()
    }))

  it('refuses values that make no sense, and listens nowhere then', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const file = path.join(directory, 'file')
      writeFileSync(file, '')
      const cases: Array<[SandboxdOptions, string]> = [
        [{ grpcPort: 8080 }, 'must differ'],
        [{ root: file }, 'sandboxd.root'],
        [{ root: '/proc/none' }, 'sandboxd.root'],
      ]
      for (const [sandboxd, text] of cases) {
        const error = await serve(sandbox, { ...FREE, sandboxd }).catch((caught) => caught)
        expect([error.name, error.code], text).toEqual(['OptionError', 'INVALID_OPTION'])
        expect(error.message).toContain(text)
      }
      const client = new SandboxClient({ url: 'http://127.0.0.1:1' })
      const remote = serve(client as unknown as typeof sandbox, { ...FREE, sandboxd: { root: directory } })
      await expect(remote).rejects.toThrow('Sandbox of this process')
    }))

  it('leaves no listener behind when a port is taken', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const taken = createServer()
      await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
      const { port } = taken.address() as AddressInfo
      try {
        for (const [name, ports] of Object.entries({
          grpcPort: { grpcPort: port, restPort: 0 },
          restPort: { grpcPort: 0, restPort: port },
        })) {
          const failing = serve(sandbox, { ...FREE, sandboxd: { ...ports, root: directory } })
          await expect(failing).rejects.toThrow(`sandboxd.${name} ${port} cannot be used on 127.0.0.1`)
        }
        const own = serve(sandbox, { ...FREE, port, sandboxd: { grpcPort: 0, restPort: 0, root: directory } })
        await expect(own).rejects.toMatchObject({ code: 'EADDRINUSE' })
      } finally {
        await new Promise((resolve) => taken.close(resolve))
      }
    }))

  it('sets the addresses also in sessions that exist already', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const session = await sandbox.createSession()
      await session.exec('true')
      await sandbox.exec('true')
      const sandboxd = { grpcPort: 0, restPort: 0, root: directory }
      const serving = await serve(sandbox, { ...FREE, sandboxd })
      const address = `127.0.0.1:${serving.sandboxd?.grpcPort}\n`
      const later = await sandbox.createSession({ env: { A: '1' } })
      for (const each of [sandbox, session, later])
        expect((await each.exec('echo $SANDBOXD_GRPC_ADDR')).stdout).toBe(address)
      expect((await later.exec('echo $A')).stdout).toBe('1\n')
      await serving.close()
    }))

  it('listens on loopback whatever the host of serve is, and warns when others can reach it', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const lines: string[] = []
      const log = (line: string) => void lines.push(line)
      const logger = { debug() {}, info() {}, warn: log, error: log }
      const options = { ...FREE, logger, host: '0.0.0.0', token: 'a-token-for-tests' }
      const sandboxd = { grpcPort: 0, restPort: 0, root: directory }
      await expect(serve(sandbox, { ...FREE, host: '0.0.0.0', sandboxd })).rejects.toThrow('token')
      const open = await serve(sandbox, { ...options, sandboxd: { ...sandboxd, host: '0.0.0.0' } })
      expect(open.sandboxd?.host).toBe('0.0.0.0')
      expect(lines.join()).toContain('sandboxd has no authentication')
      // By any name, since nacre cannot know those of its pod.
      const url = `http://127.0.0.1:${open.sandboxd?.restPort}/v1/health`
      expect((await fetch(url)).status).toBe(200)
      const place = new Place(open, { sandbox, tag: '', directory, stateDir: '' })
      expect((await place.rest('GET', '/v1/health', undefined, { host: 'pod-1.ns.svc' })).status).toBe(200)
      place.close()
      await open.close()
      lines.length = 0
      const own = await serve(sandbox, { ...options, sandboxd })
      expect([own.host, own.sandboxd?.host, lines]).toEqual(['0.0.0.0', '127.0.0.1', []])
      await own.close()
    }))
})

describe('the end of the server', () => {
  it('ends programs and streams, and waits for idle clients no longer', () =>
    withSandboxd(async (place) => {
      const started = place.start({ command: ['sh', '-c', 'setsid sleep 67 & sleep 67'] })
      await started.id()
      await begun(place, /\d [RS] sleep 67/, 2)
      const idle = new Place(place.serving, place.workplace)
      await idle.execute({ command: ['true'] })
      const [{ exitCode }] = await Promise.all([started.all(), place.serving.close()])
      expect(exitCode).toBeGreaterThan(128)
      await ended(place)
      const error = await idle
        .execute({ command: ['true'] }, { deadline: Date.now() + 20_000 })
        .catch((caught) => caught)
      expect(['UNAVAILABLE', 'DEADLINE_EXCEEDED']).toContain(statusName(error))
      expect(await isClosed(place.sandboxd.restPort)).toBe(true)
      idle.close()
    }))

  it('refuses calls and requests while it waits for running ones', () =>
    withSandboxd(
      async (place) => {
        const { restPort, grpcPort } = place.sandboxd
        const started = place.start({ command: ['sh', '-c', `trap '' TERM; while :; do sleep 0.07; done`] })
        await started.id()
        // It ignores the end of the server from now on.
        await begun(place, /sleep 0.07/)
        const closing = place.serving.close()
        const health = await fetch(`http://127.0.0.1:${restPort}/v1/health`)
        expect([health.status, await health.json()]).toEqual([
          503,
          { code: 'UNAVAILABLE', message: expect.any(String) },
        ])
        const error = await place.execute({ command: ['true'] }).catch((caught) => caught)
        expect([grpcPort > 0, statusName(error)]).toEqual([true, 'UNAVAILABLE'])
        started.stream.cancel()
        await closing
        await ended(place, /sleep 0.07/)
      },
      { shutdownTimeout: 5000 },
    ))

  it('cuts a client that does not read', () =>
    withSandboxd(
      async (place) => {
        const started = place.start({ command: ['yes'] })
        await started.id()
        await place.serving.close()
        await ended(place)
      },
      { shutdownTimeout: 500 },
    ))
})

describe('nacre serve --sandboxd', () => {
  function nacre(...args: string[]) {
    return startHost(`
      process.argv = [process.argv[0], 'nacre', ...${JSON.stringify(args)}]
      require('./dist/cli/main')
    `)
  }

  it('prints its addresses, and SIGTERM ends it with all programs', async () => {
    const base = temporary('nacre-sandboxd-')
    const flags = ['--grpc-port', '0', '--rest-port', '0', '--root', `${base}/root`]
    const host = nacre('serve', '--port', '0', '--sandboxd', ...flags)
    try {
      await host.printed('with the root')
      const [, grpcPort, restPort] =
        /sandboxd listens on 127\.0\.0\.1:(\d+) \(gRPC\) and http:\/\/127\.0\.0\.1:(\d+), with the root/.exec(
          host.output(),
        ) ?? []
      const sandboxd = {
        host: '127.0.0.1',
        grpcPort: Number(grpcPort),
        restPort: Number(restPort),
        root: `${base}/root`,
      }
      const place = new Place({ sandboxd } as never, {} as never)
      const { stdout } = await place.execute({ command: ['pwd'] })
      expect(stdout.toString()).toBe(`${base}/root\n`)
      const started = place.start({ command: ['sh', '-c', 'setsid sleep 67 & echo on; sleep 67'] })
      await started.id()
      await started.printed('on')
      host.child.kill('SIGTERM')
      expect((await started.all()).exitCode).toBeGreaterThan(128)
      expect(await host.ended()).toBe(0)
      await expectGone(host.tag)
      place.close()
    } finally {
      host.child.kill('SIGKILL')
    }
  })

  it('refuses the flags of sandboxd without it', async () => {
    for (const [args, text] of [
      [['serve', '--grpc-port', '0'], 'need --sandboxd'],
      [['serve', '--root', '/tmp'], 'need --sandboxd'],
      [['serve', '--sandboxd', '--grpc-port', 'x'], 'whole number'],
      [['serve', '--sandboxd', '--root', '/proc/none'], '--root /proc/none'],
      [['serve', '--sandboxd', '--host', '0.0.0.0'], 'token'],
    ] as Array<[string[], string]>) {
      const host = nacre(...args)
      expect(await host.ended(), args.join(' ')).toBe(2)
      expect(host.output()).toContain(text)
    }
  })
})
