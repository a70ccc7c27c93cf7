/** A proxy on loopback that fails requests in ways that the test chooses. */
import { createServer, type IncomingHttpHeaders, request } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * The treatment of a request. A status is returned without asking the server. `cut` closes the connection before the
 * request reaches the server, and `lose` afterwards, so that the reply is lost. `hang` never replies; `pass` forwards it.
 */
export type Fate = number | 'cut' | 'lose' | 'hang' | 'pass'

export interface FailingProxy {
  url: string
  /** The treatment of the next requests; later ones pass. */
  next: Fate[]
  /** Which requests get 500 besides, by their line. */
  fails: (line: string) => boolean
  /** The requests so far, like 'GET /v1/sessions', with their headers. */
  requests: Array<{ line: string; headers: IncomingHttpHeaders }>
  close(): Promise<void>
}

/** Like {@link FailingProxy.requests}, without their headers and the instances of processes. */
export const linesOf = (proxy: FailingProxy) =>
  proxy.requests.splice(0).map(({ line }) => line.replace(/~\w+/, ''))

/**
 * Closes each connection after its response unless `keepAlive`: Bun's fetch repeats GET and DELETE by itself if a reused
 * connection breaks.
 */
export async function failingProxy(port: number, keepAlive = false): Promise<FailingProxy> {
  const next: Fate[] = []
  const requests: FailingProxy['requests'] = []
  const server = createServer((incoming, outgoing) => {
    const { method, url = '', headers } = incoming
    if (!keepAlive) outgoing.setHeader('connection', 'close')
    const line = `${method} ${url.replace(/\?.*/, '')}`
    requests.push({ line, headers })
    const fate = proxy.fails(line) ? 500 : (next.shift() ?? 'pass')
    if (fate === 'hang') return
    if (fate === 'cut') {
      incoming.socket.destroy()
      return
    }
    if (typeof fate === 'number') {
      incoming.resume()
      outgoing.writeHead(fate, { 'content-type': 'text/html' }).end('<h1>Failure</h1>')
      return
    }
    const upstream = request({ host: '127.0.0.1', port, path: url, method, headers }, (reply) => {
      if (fate === 'lose') {
        reply.resume().on('end', () => incoming.socket.destroy())
        return
      }
      const { connection: _, 'keep-alive': __, ...rest } = reply.headers
      outgoing.writeHead(reply.statusCode ?? 500, rest)
      outgoing.flushHeaders()
      reply.pipe(outgoing)
    })
    upstream.on('error', () => outgoing.destroy())
    outgoing.on('close', () => upstream.destroy())
    incoming.pipe(upstream)
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const proxy: FailingProxy = {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    next,
    fails: () => false,
    requests,
    close: () =>
      new Promise((closed) => {
        server.close(() => closed())
        server.closeAllConnections()
      }),
  }
  return proxy
}
