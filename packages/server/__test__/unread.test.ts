/** Clients that read nothing hold their commands back. */
import { connect, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { startHost } from '../../../__test__/helpers/host.js'
import { unchanged } from '../../../__test__/helpers/http.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { holds, until } from '../../../__test__/helpers/until.js'

const CONNECTIONS = 24
/** A window of 1 MiB, what the result keeps, one event that is being written, and what the kernel takes. */
const MOST_WRITTEN = 7 * 1024 ** 2

const program = `
  const { serve } = require('@nacre/server')
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const main = async () => {
    for (let index = 0; index < ${CONNECTIONS}; index++)
      await (await sandbox.createSession({ id: 's' + index })).exec('true')
    const { port } = await serve(sandbox, { port: 0 })
    print('port ' + port + '.')
  }
  main()
`

/** Sends a request and reads nothing of the reply. */
function askAndNotRead(port: number, path: string, body: object): Promise<Socket> {
  const text = JSON.stringify(body)
  const head = `POST ${path} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: ${text.length}\r\n\r\n`
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1', () => {
      socket.pause()
      socket.write(head + text, () => resolve(socket))
    })
    socket.on('error', reject)
  })
}

/** Waits until each of the host's commands sleeps, and stays asleep: it waits for room in its pipe. Returns their pids. */
async function allHeldBack(url: string, tag: string, words: string): Promise<number[]> {
  const asleep = () =>
    proc.tagged(tag).filter(({ pid, state }) => state === 'S' && proc.commandLine(pid) === words)
  await until(
    () => asleep().length === CONNECTIONS || undefined,
    () => `${asleep().length} of ${CONNECTIONS} wait`,
    20_000,
  )
  await unchanged(url, () =>
    asleep()
      .map(({ pid }) => `${pid} ${proc.statusNumber('voluntary_ctxt_switches', pid)}`)
      .join(),
  )
  expect(asleep()).toHaveLength(CONNECTIONS)
  return asleep().map(({ pid }) => pid)
}

it.each(['/api/execute/stream', '/v1/exec/stream'])(
  'a client of %s that reads nothing holds its command back',
  async (path) => {
    const host = startHost(program)
    const sockets: Socket[] = []
    try {
      await host.printed('.\n')
      const port = Number(/port (\d+)\./.exec(host.output())?.[1])
      const words = 'yes unread output'
      for (let index = 0; index < CONNECTIONS; index++)
        sockets.push(await askAndNotRead(port, path, { command: words, sessionId: `s${index}` }))
      for (const pid of await allHeldBack(`http://127.0.0.1:${port}`, host.tag, words))
        expect(proc.bytes('wchar', pid)).toBeLessThan(MOST_WRITTEN)
      // The server goes on serving, and a client that leaves takes its command along.
      expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
      for (const socket of sockets) socket.destroy()
      await holds(() => !proc.tagged(host.tag).some(({ pid }) => proc.commandLine(pid) === words))
    } finally {
      for (const socket of sockets) socket.destroy()
      host.child.kill('SIGKILL')
      await host.ended()
    }
  },
  40_000,
)
