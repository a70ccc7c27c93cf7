/** The ports on which programs listen, here and over HTTP. */
import { createServer } from 'node:net'
import { describe, expect } from 'vitest'
import { freePort, serverCommand } from '../helpers/serving.js'
import { rejectionOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

describe('ports', () => {
  itHolds('are those of programs of the sandbox, and of no others', async ({ sandbox }) => {
    expect(await sandbox.ports()).toEqual([])
    const other = createServer()
    await new Promise<void>((resolve) => other.listen(0, '127.0.0.1', resolve))
    try {
      const session = await sandbox.createSession({ id: 'one' })
      expect(await session.ports()).toEqual([])
      const [first, second] = [await freePort(), await freePort()]
      const process = await sandbox.startProcess(serverCommand({ port: first }), { processId: 'web' })
      await process.waitForLog('listening')
      const words = serverCommand({ port: second, host: '::' }).map(
        (word) => `'${word.replaceAll("'", "'\\''")}'`,
      )
      const { stdout } = await session.exec(
        `${words.join(' ')} >log & echo $!; until grep -q listening log; do :; done`,
      )
      const web = {
        ...{ port: first, address: '127.0.0.1', family: 'IPv4', pid: process.pid },
        ...{ command: expect.stringContaining('listening'), sessionId: 'default', processId: 'web' },
      }
      const background = {
        ...{ port: second, address: '::', family: 'IPv6', pid: Number(stdout) },
        ...{ command: expect.stringContaining('listening'), sessionId: 'one', processId: null },
      }
      expect(await sandbox.ports()).toEqual(first < second ? [web, background] : [background, web])
      expect(await session.ports()).toEqual([background])
      expect(await (await sandbox.getSession('default'))?.ports()).toEqual([web])
      await process.kill()
      expect(await sandbox.ports()).toEqual([background])
      await session.delete()
      expect(await rejectionOf(session.ports())).toMatchObject({ code: 'SESSION_NOT_FOUND' })
      expect(await sandbox.ports()).toEqual([])
    } finally {
      other.close()
    }
  })
})
