/** Tables of the documentation site, which `npm run docs:site` builds: none is cut off, on a laptop or on a phone. */
import { readdirSync, readFileSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'

const site = path.join(path.dirname(path.dirname(__dirname)), 'docs/.vitepress/dist')
const pages = readdirSync(site, { recursive: true, encoding: 'utf8' }).filter(
  (name) => name.endsWith('.html') && readFileSync(path.join(site, name), 'utf8').includes('<table'),
)
const TYPES: Record<string, string> = { '.css': 'text/css', '.html': 'text/html', '.js': 'text/javascript' }

let browser: Browser
let server: Server

beforeAll(async () => {
  browser = await launchChromium()
  server = createServer(({ url = '' }, reply) => {
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
})

afterAll(async () => {
  await browser?.close()
  server?.close()
})

/** Runs in the page: the beginnings of cells that end outside of the window or of the text. */
const CUT = `[...document.querySelectorAll('.vp-doc :is(table, th, td)')].filter((cell) => {
  const { right, width } = cell.getBoundingClientRect()
  const most = Math.min(innerWidth, document.querySelector('.vp-doc').getBoundingClientRect().right)
  return width > 0 && (right > most + 1 || cell.scrollWidth > cell.clientWidth + 1)
}).map((cell) => cell.textContent.slice(0, 60))`

it.each([1280, 390])(
  'no table is cut off in a window of %i pixels',
  async (width) => {
    expect(pages.length).toBeGreaterThan(20)
    const { port } = server.address() as AddressInfo
    // The pages are complete without their scripts.
    const page = await browser.newPage({ viewport: { width, height: 800 }, javaScriptEnabled: false })
    try {
      for (const name of pages) {
        await page.goto(`http://127.0.0.1:${port}/${name}`)
        expect(await page.evaluate(CUT), name).toEqual([])
      }
    } finally {
      await page.close()
    }
  },
  120_000,
)
