/** Which callers may open a terminal, and how it is counted and logged. */
import { beforeAll, describe, expect, it } from 'vitest'
import { type Body, withServer } from '../../../__test__/helpers/http.js'
import { active, attach, pty, refusal, refuseOnce } from '../../../__test__/helpers/terminal.js'
import { until } from '../../../__test__/helpers/until.js'

const token = 'a-token-for-tests'

beforeAll(refuseOnce)

describe('callers of a terminal', () => {
  it('refuses callers with the same error envelopes as other routes', () =>
    withServer(async ({ serving, sandbox, url }) => {
      await sandbox.startProcess('sleep 60', { processId: 'plain' })
      await sandbox.startProcess('sleep 60', { processId: 'one', pty })
      const { port } = serving
      const at = (id: string) => `/v1/processes/${id}/terminal`
      expect(await refusal(port, at('none'))).toMatchObject({
        status: 404,
        body: { code: 'PROCESS_NOT_FOUND' },
      })
      expect(await refusal(port, at('plain'))).toMatchObject({
        status: 400,
        body: { code: 'INVALID_OPTION' },
      })
      expect((await refusal(port, `${at('one')}?cursor=x`)).body.code).toBe('INVALID_OPTION')
      expect((await refusal(port, '/v1/nothing')).body.code).toBe('NOT_FOUND')
      const evil = { Origin: 'https://evil.example' }
      expect(await refusal(port, at('one'), evil)).toMatchObject({ status: 403, body: { code: 'FORBIDDEN' } })
      expect((await refusal(port, at('one'), { Host: 'evil.example' })).status).toBe(403)
      const plain = await fetch(url + at('one'))
      expect([plain.status, plain.headers.get('upgrade')]).toEqual([426, 'websocket'])
      expect(((await plain.json()) as Body).code).toBe('UPGRADE_REQUIRED')
      expect(await active(url)).toBe(1)
    }))

  it('accepts the token as a header or as a subprotocol', () =>
    withServer(
      async ({ url, serving, sandbox }) => {
        const process = await sandbox.startProcess('echo on; sleep 60', { pty })
        const at = `/v1/processes/${process.id}/terminal`
        const offer = (protocols: string) => ({ 'Sec-WebSocket-Protocol': protocols })
        const wrong: Array<Record<string, string>> = [
          {},
          { Authorization: 'Bearer wrong' },
          offer('nacre.token.wrong'),
        ]
        for (const headers of wrong)
          expect(await refusal(serving.port, at, headers)).toMatchObject({ status: 401 })
        expect((await refusal(serving.port, `${at}?token=${token}`)).status).toBe(401)
        const byHeader = await attach(url, process.id, { headers: { Authorization: `Bearer ${token}` } })
        const encoded = `nacre.token.${token.replace('t', '%74')}`
        const byProtocol = await attach(url, process.id, { protocols: [encoded] })
        const both = await attach(url, process.id, { protocols: [`nacre.token.${token}`, 'nacre.terminal'] })
        expect([byHeader, byProtocol, both].map(({ socket }) => socket.protocol)).toEqual([
          '',
          encoded,
          'nacre.terminal',
        ])
        for (const terminal of [byHeader, byProtocol, both]) {
          await terminal.printed('on')
          terminal.socket.close()
          await terminal.closed
        }
        // Only a WebSocket may be opened by it.
        const response = await fetch(`${url}/v1/sessions`, { headers: offer(`nacre.token.${token}`) })
        expect(response.status).toBe(401)
      },
      { token },
    ))

  it('accepts pages of an allowed origin', () =>
    withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('echo on', { pty })
        const terminal = await attach(url, process.id, { headers: { Origin: 'https://good.example' } })
        expect((await terminal.closed).code).toBe(1000)
      },
      { allowedOrigins: ['https://good.example'] },
    ))

  it('counts a terminal as a request and logs it when it is closed', () => {
    const lines: string[] = []
    const logger = { debug() {}, info: (line: string) => lines.push(line), warn() {}, error() {} }
    return withServer(
      async ({ url, sandbox }) => {
        const process = await sandbox.startProcess('echo on; sleep 60', { pty, processId: 'one' })
        const terminal = await attach(url, process.id)
        await terminal.printed('on')
        expect(await active(url)).toBe(2)
        expect(lines.filter((line) => line.includes('terminal'))).toEqual([])
        terminal.socket.close()
        await until(
          () => lines.find((line) => /^GET \/v1\/processes\/one\/terminal 101 \d+ ms$/.test(line)),
          () => `no line: ${lines}`,
        )
      },
      { logger },
    )
  })
})
