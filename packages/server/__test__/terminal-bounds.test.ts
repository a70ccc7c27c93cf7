/** Terminals whose clients are silent, do not read or send too much, and the end of their server. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { unchanged, withServer } from '../../../__test__/helpers/http.js'
import { active, attach, frame, pty, rawClient } from '../../../__test__/helpers/terminal.js'
import { holds, until } from '../../../__test__/helpers/until.js'

describe('a silent terminal', () => {
  it('pings a silent client', () =>
    withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('sleep 60', { pty })
        const terminal = await attach(url, process.id)
        await once(terminal.socket, 'ping')
        terminal.socket.close()
        await terminal.closed
      },
      { heartbeat: 20 },
    ))
})

describe('bounds of a terminal', () => {
  it('answers pings and the close of a client whose input the terminal does not take', () =>
    withServer(async ({ url, sandbox }) => {
      const process = await sandbox.startProcess('stty raw -echo; echo on; sleep 60', { pty })
      const terminal = await attach(url, process.id)
      await terminal.printed('on')
      for (let count = 0; count < 8; count++) terminal.socket.send(Buffer.alloc(64 * 1024, 'x'))
      terminal.socket.ping()
      await once(terminal.socket, 'pong')
      terminal.socket.close(1000)
      expect((await terminal.closed).code).toBe(1000)
      await holds(async () => (await active(url)) === 1)
      await process.kill()
    }))

  it('holds back a client that types faster than the process reads, and loses nothing', () =>
    withServer(async ({ url, serving, sandbox, directory }) => {
      const bytes = 16 * 1024 * 1024
      const process = await sandbox.startProcess(
        `stty raw -echo; echo on; until [ -e go ]; do sleep 0.01; done; head -c ${bytes} | sha1sum`,
        { pty },
      )
      await process.waitForLog('on')
      const client = await rawClient(serving.port, `/v1/processes/${process.id}/terminal`)
      const chunk = Buffer.alloc(64 * 1024, 'nacre')
      for (let sent = 0; sent < bytes; sent += chunk.length) client.write(frame(chunk))
      // The kernel takes some of it; the rest waits in the client.
      await unchanged(url, () => String(client.writableLength))
      expect(client.writableLength).toBeGreaterThan(bytes / 2)
      writeFileSync(path.join(directory, 'go'), '')
      await process.waitForExit({ timeout: 15_000 })
      const whole = Buffer.concat(Array.from({ length: bytes / chunk.length }, () => chunk))
      expect((await process.getLogs()).stdout).toContain(createHash('sha1').update(whole).digest('hex'))
      client.destroy()
    }))

  it('a client that does not read holds up nothing, and gets the rest when it reads', () =>
    withServer(async ({ url, serving, sandbox }) => {
      const command = 'until [ -e go ]; do sleep 0.01; done; stty -opost; seq -f %015.0f 400000'
      const process = await sandbox.startProcess(command, { pty, logLimit: 8 * 1024 * 1024 })
      const client = await rawClient(serving.port, `/v1/processes/${process.id}/terminal`)
      await sandbox.exec('touch go')
      expect((await process.waitForExit()).exitCode).toBe(0)
      // The headers of frames fall anywhere, also inside a line: bytes are counted.
      let length = 0
      client.on('data', (data) => {
        length += data.length
      })
      client.resume()
      await until(
        () => length >= 400_000 * '000000000000001\n'.length || undefined,
        () => `there are only ${length} bytes`,
      )
      client.destroy()
      await holds(async () => (await active(url)) === 1)
    }))
})

describe('the end of the server', () => {
  it('closes terminals when the server ends, even those of clients that do not read', () =>
    withServer(
      async ({ url, serving, sandbox }) => {
        const process = await sandbox.startProcess('yes', { pty, logLimit: 8 * 1024 * 1024 })
        const idle = await sandbox.startProcess('echo on; sleep 60', { pty })
        const terminal = await attach(url, idle.id)
        await terminal.printed('on')
        const stuck = await rawClient(serving.port, `/v1/processes/${process.id}/terminal`)
        await holds(async () => (await active(url)) === 3)
        await serving.close()
        expect(await terminal.closed).toEqual({ code: 1001, reason: 'the server ends' })
        stuck.destroy()
      },
      { shutdownTimeout: 600_000 },
    ))
})
