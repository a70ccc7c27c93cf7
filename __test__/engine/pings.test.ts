/** A connection whose other side does not answer any more is ended, and one that answers is kept. */
import { once } from 'node:events'
import { connect, createServer as createHttp2Server, type Http2Session } from 'node:http2'
import { type AddressInfo, createServer } from 'node:net'
import { expect, it } from 'vitest'
import { ping } from '../../lib/base/http2-pipes.js'
import { until } from '../helpers/until.js'

it('ends a connection after some pings without an answer', async () => {
  const silent = createServer((socket) => socket.on('error', () => {}).resume()).listen(0, '127.0.0.1')
  await once(silent, 'listening')
  const session = connect(`http://127.0.0.1:${(silent.address() as AddressInfo).port}`)
  const failed = once(session, 'error')
  ping(session, 5, 3)
  const keepAlive = setInterval(() => {}, 1000)
  expect(String(await failed)).toContain('does not answer any more')
  clearInterval(keepAlive)
  silent.close()
})

it('keeps a connection that answers', async () => {
  const server = createHttp2Server().listen(0, '127.0.0.1')
  await once(server, 'listening')
  let answered = 0
  server.on('session', (session: Http2Session) => session.on('ping', () => answered++))
  const session = connect(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  ping(session, 20, 3)
  await until(
    () => answered > 10 || undefined,
    () => `${answered} pings`,
  )
  expect(session.destroyed).toBe(false)
  session.close()
  server.close()
})
