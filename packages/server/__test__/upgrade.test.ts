/** Requests that offer another protocol than a WebSocket. */
import { connect } from 'node:net'
import { describe, expect, it } from 'vitest'
import { withServer } from '../../../__test__/helpers/http.js'
import { until } from '../../../__test__/helpers/until.js'

describe('a request that offers another protocol', () => {
  it('answers a request that offers h2c over HTTP/1.1', () =>
    withServer(async ({ serving }) => {
      const body = JSON.stringify({ command: 'echo plain' })
      const socket = connect(serving.port, '127.0.0.1')
      let text = ''
      socket.on('data', (data) => {
        text += data
      })
      const head = [
        'POST /v1/exec HTTP/1.1',
        'Host: localhost',
        'Connection: Upgrade, HTTP2-Settings',
        'Upgrade: h2c',
        'HTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA',
        'Content-Type: application/json',
        `Content-Length: ${body.length}`,
      ]
      socket.write(`${head.join('\r\n')}\r\n\r\n${body.slice(0, 9)}`)
      await new Promise((resolve) => setImmediate(resolve))
      socket.write(body.slice(9))
      await until(
        () => text.includes('plain\\n') || undefined,
        () => `the answer is ${JSON.stringify(text)}`,
      )
      expect(text).toMatch(/^HTTP\/1.1 200/)
      socket.destroy()
    }))
})
