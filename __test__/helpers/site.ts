/** The documentation site as `npm run docs:site` builds it, on a server for tests. */
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { root } from './markdown.js'

export const site = path.join(root, 'docs/.vitepress/dist')

/** The pages of the site, like `guide/sessions.html`. */
export const pages = readdirSync(site, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.html') && name !== '404.html')
  .sort()

const TYPES: Record<string, string> = {
  '.css': 'text/css',
  '.html': 'text/html',
  '.js': 'text/javascript',
  '.svg': 'image/svg+xml',
}

/** Serves the site until it is closed. */
export async function serveSite(): Promise<{ url: string; close(): void }> {
  const server = createServer(({ url = '' }, reply) => {
    const file = path.join(site, path.normalize(decodeURI(url.replace(/[?#].*/, ''))))
    try {
      const content = readFileSync(file)
      reply.setHeader('content-type', TYPES[path.extname(file)] ?? 'application/octet-stream')
      reply.end(content)
    } catch {
      reply.writeHead(404).end()
    }
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  return { url: `http://127.0.0.1:${port}`, close: () => server.close() }
}
