/** Replies that no string can hold: on Node, which has strings of half a GiB. On Bun, a string holds the largest reply. */
import { expect, it } from 'vitest'
import { expectGone, startHost } from '../../../__test__/helpers/host.js'
import { requestsTo } from '../../../__test__/helpers/http.js'

const MEBIBYTE = 1024 * 1024

it('a reply that is longer than a string can be is refused, and the server goes on', async () => {
  const host = startHost(`
    const { serve } = require('@nacre/server')
    const fail = () => { throw new Error('a logger that fails') }
    const logger = { debug: fail, info: fail, warn: fail, error: fail }
    serve(new Sandbox({ cwd: '/tmp' }), { port: 0, logger }).then(({ url }) => print('url ' + url + ' end'))
  `)
  await host.printed(' end')
  const [, url = ''] = /url (\S+) end/.exec(host.output()) ?? []
  const { post, get } = requestsTo(url)
  // As JSON text, each NUL takes six characters.
  const bytes = 64 * MEBIBYTE
  const command = `head -c ${bytes} /dev/zero; head -c ${bytes} /dev/zero >&2; false`
  for (const check of [false, true]) {
    const { body } = await post('/v1/exec', { command, maxBuffer: bytes, check })
    if (process.versions.bun !== undefined) {
      expect(check ? body.code : body.result.stdout.length).toEqual(check ? 'COMMAND_FAILED' : bytes)
      continue
    }
    expect([body.code, body.httpStatus]).toEqual(['REPLY_TOO_LARGE', 500])
    expect(body.message).toContain('maxBuffer')
  }
  expect(await get('/healthz')).toMatchObject({ status: 200 })
  host.child.kill('SIGKILL')
  await expectGone(host.tag)
}, 120_000)
