/** Clients that read nothing hold their commands back, and little of the server's memory. */
import { connect, type Socket } from 'node:net'
import { expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { unchanged } from '../helpers/http.js'
import { collecting } from '../helpers/memory.js'
import * as proc from '../helpers/proc.js'
import { until } from '../helpers/until.js'

const CONNECTIONS = 24
/** A window of 1 MiB, what the result keeps, and one event that is being written, as bytes and as JSON. */
const MOST_MB_EACH = 7

const program = `
  ${collecting}
  const { serve } = require('nacre/server')
  const sandbox = new Sandbox({ cwd: '/tmp' })
  const main = async () => {
    for (let index = 0; index < ${CONNECTIONS}; index++)
      await (await sandbox.createSession({ id: 's' + index })).exec('true')
    const { port } = await serve(sandbox, { port: 0, handleSignals: false })
    collect()
    // What the server holds counts, not what its collector has yet to find.
    setInterval(collect, 500)
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

/** Waits until each of the host's commands sleeps, and stays asleep: it waits for room in its pipe. */
async function allHeldBack(url: string, tag: string, words: string): Promise<void> {
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
}

it.each(['/api/execute/stream', '/v1/exec/stream'])(
  'a client of %s that reads nothing holds its command back and little memory',
  async (path) => {
    const host = startHost(program)
    const sockets: Socket[] = []
    try {
      await host.printed('.\n')
      const port = Number(/port (\d+)\./.exec(host.output())?.[1])
      const before = proc.statusNumber('VmRSS', host.pid)
      const words = 'yes unread output'
      for (let index = 0; index < CONNECTIONS; index++)
        sockets.push(await askAndNotRead(port, path, { command: words, sessionId: `s${index}` }))
      await allHeldBack(`http://127.0.0.1:${port}`, host.tag, words)
      const grown = () => (proc.statusNumber('VmRSS', host.pid) - before) / 1024
      await until(
        () => grown() < CONNECTIONS * MOST_MB_EACH || undefined,
        () => `${CONNECTIONS} unread replies hold ${grown()} MB`,
        10_000,
      )
      // The server goes on serving, and a client that leaves takes its command along.
      expect((await fetch(`http://127.0.0.1:${port}/healthz`)).status).toBe(200)
      for (const socket of sockets) socket.destroy()
      await until(
        () => !proc.tagged(host.tag).some(({ pid }) => proc.commandLine(pid) === words) || undefined,
        () => 'commands outlive their clients',
        10_000,
      )
    } finally {
      for (const socket of sockets) socket.destroy()
      host.child.kill('SIGKILL')
      await host.ended()
    }
  },
  40_000,
)
