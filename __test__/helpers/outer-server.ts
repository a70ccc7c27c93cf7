/** A server without TLS that the programs of a session reach through their proxy. */
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll } from 'vitest'
import { startProxyThread } from './proxied-origin.js'
import { outerAddress } from './serving.js'

/** Starts it for the tests of a file, at an address of this machine. Returns its host and port. */
export async function startOuterServer(answer: RequestListener): Promise<string> {
  const server = createServer(answer)
  await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
  startProxyThread()
  afterAll(() => {
    server.close()
    server.closeAllConnections()
  })
  return `${outerAddress()}:${(server.address() as AddressInfo).port}`
}
