/** A server with TLS on this machine, whose certificate an authority of its own has signed. It sees what programs really send. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createSecureServer } from 'node:http2'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Duplex } from 'node:stream'

/** What a request had. */
export interface Seen {
  url: string
  authorization: string | undefined
  headers: Record<string, unknown>
  body: string
}

export interface TlsOrigin {
  port: number
  /** Of its authority, as PEM. */
  authority: string
  seen: Seen[]
  close(): void
}

/** Makes an authority, and a certificate for these names, in a directory. */
export function makeCertificates(directory: string, names: readonly string[]): void {
  const run = (...words: string[]) => execFileSync('openssl', words, { cwd: directory, stdio: 'pipe' })
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
  run(
    'req',
    '-x509',
    ...key,
    '-keyout',
    'ca.key',
    '-out',
    'ca.pem',
    '-days',
    '2',
    '-subj',
    '/CN=an authority of the tests',
  )
  run('req', ...key, '-keyout', 'origin.key', '-out', 'origin.csr', '-subj', '/CN=origin')
  writeFileSync(
    path.join(directory, 'names'),
    `subjectAltName=${names.map((name) => `DNS:${name}`).join(',')}\n`,
  )
  const signed = ['-CA', 'ca.pem', '-CAkey', 'ca.key', '-CAcreateserial', '-days', '2', '-extfile', 'names']
  run('x509', '-req', '-in', 'origin.csr', ...signed, '-out', 'origin.pem')
}

/**
 * Starts a server: `/echo` replies with what it got, `/to?URL` redirects, `/401` refuses, `/cut` ends the connection, anything else
 * replies with `hello`. A WebSocket gets its credential as message.
 */
export async function startOrigin(names: readonly string[] = ['localhost']): Promise<TlsOrigin> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-origin-'))
  try {
    makeCertificates(directory, names)
    const [key, cert, authority] = ['origin.key', 'origin.pem', 'ca.pem'].map((name) =>
      readFileSync(path.join(directory, name), 'utf8'),
    )
    const seen: Seen[] = []
    const server = createSecureServer({ key, cert, allowHTTP1: true })
    server.on('request', async (request, response) => {
      await answer(request as unknown as IncomingMessage, response as unknown as ServerResponse, seen)
    })
    server.on('upgrade', (request: IncomingMessage, socket: Duplex) => {
      seen.push({
        url: request.url ?? '',
        authorization: request.headers.authorization,
        headers: { ...request.headers },
        body: '',
      })
      const head = 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n'
      const text = Buffer.from(request.headers.authorization ?? 'none')
      socket.end(Buffer.concat([Buffer.from(head), Buffer.from([0x81, text.length]), text]))
    })
    await new Promise<void>((resolve) => server.listen(0, '0.0.0.0', resolve))
    const { port } = server.address() as AddressInfo
    return { port, authority: authority ?? '', seen, close: () => void server.close() }
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}

async function answer(request: IncomingMessage, response: ServerResponse, seen: Seen[]): Promise<void> {
  const chunks: Buffer[] = []
  try {
    for await (const chunk of request) chunks.push(chunk)
  } catch {
    // The client has gone.
    return
  }
  const { url = '', headers } = request
  const body = Buffer.concat(chunks).toString()
  const own = { ...headers }
  seen.push({ url, authorization: headers.authorization, headers: own, body })
  if (url.startsWith('/to?')) {
    response.writeHead(302, { location: decodeURIComponent(url.slice(4)) })
    response.end()
  } else if (url === '/401') response.writeHead(401).end()
  else if (url === '/cut') request.socket.destroy()
  else if (url.startsWith('/echo')) {
    response.writeHead(200, { 'content-type': 'application/json', 'x-echo': headers.authorization ?? 'none' })
    response.end(JSON.stringify({ url, headers: own, body }))
  } else response.end('hello')
}
