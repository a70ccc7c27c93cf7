/** Serves the five files that the page needs, and nothing else. */
import { readFileSync } from 'node:fs'
import http from 'node:http'
import { fileURLToPath } from 'node:url'

const FILES = {
  '/': ['text/html; charset=utf-8', new URL('./public/index.html', import.meta.url)],
  '/terminal.js': ['text/javascript', new URL('./public/terminal.js', import.meta.url)],
  '/xterm.js': ['text/javascript', import.meta.resolve('@xterm/xterm/lib/xterm.mjs')],
  '/xterm.css': ['text/css', import.meta.resolve('@xterm/xterm/css/xterm.css')],
  '/addon-fit.js': ['text/javascript', import.meta.resolve('@xterm/addon-fit/lib/addon-fit.mjs')],
}

/** Starts the server. Resolves to the origin of the page, like 'http://127.0.0.1:8000'. */
export function servePage(port) {
  const server = http.createServer((request, response) => {
    const [type, url] = FILES[request.url] ?? []
    if (type === undefined) response.writeHead(404).end()
    else response.writeHead(200, { 'content-type': type }).end(readFileSync(fileURLToPath(url)))
  })
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', () => resolve({ origin: `http://127.0.0.1:${server.address().port}` }))
  })
}
