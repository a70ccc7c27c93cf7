/** Requests of hostile clients to both APIs: refused before anything happens. */
import { connect } from 'node:net'
import { expect, it } from 'vitest'
import { withDaytona } from './daytona-place.js'
import { withServer } from './place.js'

const MIB = 1024 * 1024

/** The status of a raw request. */
function statusOf(url: string, lines: string[], body = ''): Promise<number> {
  const { port } = new URL(url)
  return new Promise((resolve, reject) => {
    const socket = connect(Number(port), '127.0.0.1')
    let text = ''
    socket.on('error', reject)
    socket.on('data', (data) => {
      text += data
      const [, status] = /^HTTP\/1\.1 (\d+)/.exec(text) ?? []
      if (status === undefined) return
      resolve(Number(status))
      socket.destroy()
    })
    socket.write(`${lines.join('\r\n')}\r\n\r\n${body}`)
  })
}

const apis = [
  ['E2B', withServer, '/sandboxes', (key: string) => `X-API-Key: ${key}`],
  ['Daytona', withDaytona, '/api/sandbox', (key: string) => `Authorization: Bearer ${key}`],
] as const

it.each(apis)('%s refuses other names, pages, wrong keys and large bodies', (_, withApi, path, keyed) =>
  (withApi as (test: (place: { server: { url: string; key: string } }) => Promise<void>) => Promise<void>)(
    async ({ server: { url, key } }) => {
      const own = keyed(key)
      const get = (...headers: string[]) => statusOf(url, [`GET ${path} HTTP/1.1`, ...headers])
      expect(await get('Host: localhost', own)).toBe(200)
      expect(await statusOf(url, [`GET ${path} HTTP/1.0`, own])).toBe(200)
      for (const host of [
        'evil.example',
        'localhost.evil.example',
        'a.b.localhost.evil.example',
        '0.0.0.0',
        '',
      ])
        expect(await get(`Host: ${host}`, own), host).toBe(403)
      for (const origin of ['https://evil.example', 'null', 'http://localhost', ''])
        expect(await get('Host: localhost', own, `Origin: ${origin}`), origin).toBe(403)
      for (const wrong of ['X-Nothing: 1', keyed(`${key}x`), keyed(`${key}, ${key}`), `Cookie: key=${key}`])
        expect(await get('Host: localhost', wrong), wrong).toBe(401)
      expect(await get('Host: localhost', own, 'Connection: Upgrade', 'Upgrade: h2c')).toBe(200)
      expect(await get('Host: evil.example', own, 'Connection: Upgrade', 'Upgrade: h2c')).toBe(403)
      expect(await get('Host: evil.example', own, 'Connection: Upgrade', 'Upgrade: websocket')).toBe(403)
      const post = [`POST ${path} HTTP/1.1`, 'Host: localhost', own, 'Content-Type: application/json']
      const body = JSON.stringify({ templateID: 'x'.repeat(2 * MIB) })
      expect(await statusOf(url, [...post, `Content-Length: ${body.length}`], body)).toBe(413)
      const chunk = `${body.length.toString(16)}\r\n${body}\r\n`
      expect(await statusOf(url, [...post, 'Transfer-Encoding: chunked'], chunk)).toBe(413)
    },
  ),
)
