/** A server that has forgotten a caller. */

import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { expect, it } from 'vitest'
import { CALL_HEADER } from '../../lib/protocol/headers.js'
import { failingProxy, linesOf } from '../helpers/failing-proxy.js'

const token = 'a-token-of-the-tests'

it('gets one new caller for all calls that notice it', async () => {
  await using sandbox = new Sandbox()
  const serving = await serve(sandbox, { port: 0, token })
  const proxy = await failingProxy(Number(new URL(serving.url).port))
  const client = new SandboxClient({ url: proxy.url, token, resume: true, reconnectTimeout: 1000 })
  try {
    await client.createSession({ id: 'first' })
    const last = proxy.requests.findLast(({ headers }) => CALL_HEADER in headers)
    const [callerId] = String(last?.headers[CALL_HEADER]).split('/')
    const url = `${serving.url}/v1/callers/${callerId}`
    expect(
      (await fetch(url, { method: 'DELETE', headers: { authorization: `Bearer ${token}` } })).status,
    ).toBe(200)
    proxy.requests.length = 0
    await Promise.all(Array.from({ length: 20 }, (_, index) => client.createSession({ id: `s${index}` })))
    expect(linesOf(proxy).filter((line) => line === 'POST /v1/callers')).toHaveLength(1)
  } finally {
    await client.destroy()
    await proxy.close()
    await serving.close()
  }
})
