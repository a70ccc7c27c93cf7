/** Forks in the Chromium of the system: the tiles of the console, and pages that attack from the host of a fork. */
import { readFileSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import path from 'node:path'
import { type ServeOptions, serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import type { BrowserContext, Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { findingsOfAxe, useChromium } from '../../../__test__/helpers/chromium.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { until } from '../../../__test__/helpers/until.js'

const TOKEN = 'a-token-for-the-console'
const browser = useChromium()

/** A page with a script of the program's, a cookie, and what was sent to it. */
const PROGRAM = `
const [name] = process.argv.slice(1)
require('node:http').createServer((q, r) => {
  if (q.url === '/cached.js')
    return r.setHeader('cache-control', 'max-age=31536000, immutable').setHeader('content-type', 'text/javascript').end('window.cached = "' + name + '"')
  if (q.url === '/secret.js') return r.setHeader('content-type', 'text/javascript').end('window.stolen = "' + name + '"')
  if (q.url === '/echo') return r.end(JSON.stringify(q.headers))
  r.setHeader('set-cookie', ['own=' + name, 'wide=' + name + '; Domain=localhost'])
  r.setHeader('content-type', 'text/html').end('<!doctype html><title>' + name + '</title><p id=name>' + name + '</p>')
}).listen(3000, () => console.log('up'))
`

interface Place {
  context: BrowserContext
  directory: string
  sandbox: Sandbox
  red: Sandbox
  blue: Sandbox
  url: string
  port: number
  /** Opens the console, and waits for both tiles. */
  openConsole(width?: number): Promise<{ page: Page; problems: string[] }>
}

async function withForks(
  test: (place: Place) => Promise<void>,
  options: ServeOptions = { token: TOKEN },
): Promise<void> {
  const directory = temporary('nacre-forks-')
  writeFileSync(
    path.join(directory, 'lines'),
    `${Array.from({ length: 40 }, (_, at) => `line ${at}`).join('\n')}\n`,
  )
  await using sandbox = new Sandbox({ cwd: directory, workspace: 'copy-on-write', isolation: 'workspace' })
  await using red = await sandbox.fork({ name: 'red' })
  await using blue = await sandbox.fork({ name: 'blue' })
  for (const fork of [red, blue])
    await (await fork.startProcess(['node', '-e', PROGRAM, fork.name ?? ''])).waitForLog('up')
  const serving = await serve(sandbox, { port: 0, console: true, forks: true, ...options })
  const context = await browser().newContext({ viewport: { width: 1280, height: 900 } })
  const openConsole = async (width = 1280) => {
    const page = await context.newPage()
    const problems: string[] = []
    page.on('pageerror', (error) => problems.push(error.message))
    page.on('console', (message) => {
      if (message.type() === 'error' && !message.text().startsWith('Failed to load'))
        problems.push(message.text())
    })
    await page.setViewportSize({ width, height: 900 })
    await page.goto(`${serving.url}/console#token=${TOKEN}`)
    for (const name of ['red', 'blue']) await page.locator(`article[data-fork=${name}] .ports a`).waitFor()
    return { page, problems }
  }
  try {
    await test({
      ...{ context, directory, sandbox, red, blue, url: serving.url, port: serving.port },
      openConsole,
    })
  } finally {
    await context.close()
    await serving.close()
  }
}

async function shows(page: Page, selector: string, wanted: string | RegExp): Promise<void> {
  let text = ''
  await until(
    async () => {
      text = await page.locator(selector).innerText()
      return (typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text)) || undefined
    },
    () => `${selector} does not show ${wanted}, but ${JSON.stringify(text)}`,
    15_000,
  )
}

/** The page of a fork, opened by its link in the console. */
async function openFork({ context, openConsole }: Place, name: string): Promise<Page> {
  const { page } = await openConsole()
  const opened = context.waitForEvent('page')
  await page.click(`article[data-fork=${name}] .ports a`)
  const fork = await opened
  await fork.waitForLoadState()
  await page.close()
  return fork
}

describe('the console with forks', () => {
  it('shows a tile for each beside the others: what runs, its ports, its changes by group', () =>
    withForks(async ({ red, blue, openConsole, sandbox }) => {
      const { page, problems } = await openConsole()
      await red.exec(
        'sed -i "s/line 3$/red/; s/line 35$/RED/" lines; mkdir .vscode; echo > .vscode/tasks.json',
      )
      await blue.exec('echo > new')
      await shows(page, 'article[data-fork=red] .groups', /Runs later 2\s*Source 1/)
      await shows(page, 'article[data-fork=blue] .groups', /^Source 1$/)
      const running = blue.exec('echo works; sleep 1000')
      await shows(page, 'article[data-fork=blue]', /running \d+ s\s+echo works; sleep 1000/)
      await shows(page, 'article[data-fork=red] .state', /1 session, \d+ process/)
      const boxes = await page.locator('article.fork').evaluateAll((tiles) =>
        tiles.map((tile) => {
          const { top, left } = tile.getBoundingClientRect()
          return { top, left }
        }),
      )
      expect(boxes.map(({ top }) => top)).toEqual([boxes[0]?.top, boxes[0]?.top])
      expect(new Set(boxes.map(({ left }) => left)).size).toBe(2)
      await blue.killAllProcesses()
      for (const { id } of (await (await blue.getSession('default'))?.running()) ?? [])
        await (await blue.getSession('default'))?.killCommand(id)
      await running
      await shows(page, 'article[data-fork=blue] .ports', /^$/)
      const merged = await Sandbox.merge([red, blue])
      await page.locator('article[data-fork=merge-1]').waitFor()
      await shows(page, '#forks > h2', 'Forks 3')
      await merged.sandbox.destroy()
      await page.locator('article[data-fork=merge-1]').waitFor({ state: 'detached' })
      expect(sandbox.name).toBeNull()
      expect(problems).toEqual([])
    }))

  it('takes or leaves the changes of a fork hunk by hunk', () =>
    withForks(async ({ red, directory, openConsole }) => {
      await red.exec('sed -i "s/line 3$/red/; s/line 35$/RED/" lines')
      const { page, problems } = await openConsole()
      const tile = 'article[data-fork=red]'
      await page.click(`${tile} button:text("Review")`)
      await page.click(`${tile} button[aria-label="modified lines"]`)
      await page.locator('dialog button:text("Take back")').first().click()
      await page.locator('dialog').waitFor({ state: 'detached' })
      await page.click(`${tile} button[aria-label="modified lines"]`)
      await page.click('dialog button:text("Commit")')
      await shows(page, `${tile} section h2`, 'Changes 0')
      const lines = readFileSync(path.join(directory, 'lines'), 'utf8').split('\n')
      expect([lines[3], lines[35]]).toEqual(['line 3', 'RED'])
      expect(problems).toEqual([])
    }))

  it('leads to the console of a fork alone, and back', () =>
    withForks(async ({ red, openConsole, url }) => {
      const { page, problems } = await openConsole()
      await page.click('article[data-fork=red] a:text("Sessions")')
      await shows(page, 'h1', 'red')
      expect(page.url()).toBe(`${url}/forks/red/console`)
      await red.exec('echo said in red')
      await shows(page, 'article[data-place="default"]', 'said in red')
      await page.click('h1 a:text("All forks")')
      await page.locator('article[data-fork=blue] .ports a').waitFor()
      expect(problems).toEqual([])
    }))

  for (const width of [390, 1280])
    it(`has no findings of axe, ${width} px`, () =>
      withForks(async ({ red, openConsole }) => {
        await red.exec('echo > new')
        const { page } = await openConsole(width)
        await shows(page, 'article[data-fork=red] .groups', 'Source 1')
        expect(await findingsOfAxe(page)).toEqual([])
        expect(
          await page.evaluate('document.documentElement.scrollWidth - document.documentElement.clientWidth'),
        ).toBe(0)
      }))
})

/** What a script of a page gets: the text, or the name of the error. */
const get = (page: Page, url: string, options: object = {}) =>
  page.evaluate(
    ([url, options]) =>
      fetch(url, options)
        .then((reply) => reply.text())
        .catch((error) => error.name),
    [url, options] as const,
  )

describe('the page of a fork', () => {
  it('leaves nothing in the browser for the next fork of the name', () =>
    withForks(async (place) => {
      const { red, sandbox } = place
      const visit = async (page: Page) => {
        const script = await page.evaluate(
          "new Promise((resolve) => document.head.append(Object.assign(document.createElement('script'), { src: '/cached.js', onload: () => resolve(window.cached) })))",
        )
        const kept = await page.evaluate("localStorage.getItem('kept')")
        await page.evaluate("localStorage.setItem('kept', 'yes')")
        await page.close()
        return { script, kept }
      }
      expect(await visit(await openFork(place, 'red'))).toEqual({ script: 'red', kept: null })
      // The same fork finds what it has left.
      expect(await visit(await openFork(place, 'red'))).toEqual({ script: 'red', kept: 'yes' })
      await red.destroy()
      await using next = await sandbox.fork({ name: 'red' })
      await (await next.startProcess(['node', '-e', PROGRAM, 'next'])).waitForLog('up')
      expect(await visit(await openFork(place, 'red'))).toEqual({ script: 'next', kept: null })
    }))

  it('is replaced while it is open by the dev server of the fork, which takes the name for its own', () =>
    withForks(async (place) => {
      const { red, openConsole, context } = place
      await red.killAllProcesses()
      await red.files.write(
        'index.html',
        '<!doctype html><script type="module" src="/main.js"></script><p id=shown></p>',
      )
      const main = (text: string) =>
        `document.querySelector('#shown').textContent = '${text}'; window.kept ??= '${text}'; import.meta.hot.accept()`
      await red.files.write('main.js', main('first'))
      const vite = path.join(
        path.dirname(createRequire(__filename).resolve('vite/package.json')),
        'bin/vite.js',
      )
      const server = await red.startProcess([
        'node',
        vite,
        '--port',
        '3000',
        '--strictPort',
        '--host',
        '127.0.0.1',
      ])
      await server.waitForPort(3000)
      const { page: console } = await openConsole()
      const opened = context.waitForEvent('page')
      await console.click('article[data-fork=red] .ports a')
      const page = await opened
      await shows(page, '#shown', 'first')
      await until(
        async () => {
          // It may not be watching yet.
          await red.files.write('main.js', main('second'))
          return (await page.innerText('#shown')) === 'second' || undefined
        },
        () => 'the page stays as it was',
        15_000,
      )
      // The module was replaced by its WebSocket, and the page not loaded again.
      expect(await page.evaluate('window.kept')).toBe('first')
    }))

  it('is opened from the console, with its own origin, name and cookies', () =>
    withForks(async (place) => {
      const page = await openFork(place, 'red')
      expect(page.url()).toBe(`http://3000.red.localhost:${place.port}/`)
      expect(await page.innerText('#name')).toBe('red')
      expect(await page.evaluate('window.opener')).toBeNull()
      const headers = JSON.parse(await get(page, '/echo'))
      expect(headers).toMatchObject({ host: `3000.red.localhost:${place.port}`, cookie: 'own=red; wide=red' })
      expect(headers.referer).toBe(page.url())
      // The cookie of the link is no matter of the page.
      expect(await page.evaluate('document.cookie')).toBe('own=red; wide=red')
    }))

  for (const [name, options] of [
    ['with a token', { token: TOKEN }],
    ['without a token', {}],
  ] as const)
    it(`reaches neither the server nor the page of another fork, ${name}`, () =>
      withForks(async (place) => {
        const { port, context, red, blue } = place
        // The person has opened both, so the browser has both cookies.
        const page = await openFork(place, 'red')
        const other = await openFork(place, 'blue')
        expect(await other.innerText('#name')).toBe('blue')
        const server = [`http://127.0.0.1:${port}`, `http://localhost:${port}`]
        for (const base of server)
          for (const route of [
            '/v1/sessions',
            '/v1/forks',
            '/forks/red/v1/sessions',
            '/metrics',
            '/openapi.json',
          ])
            for (const options of [{}, { credentials: 'include' }])
              expect(await get(page, base + route, options), base + route).toBe('TypeError')
        // A request that no page may read arrives all the same: it must change nothing.
        for (const base of server)
          for (const route of ['/v1/exec', '/forks/red/v1/exec', '/forks/blue/v1/exec', '/api/execute'])
            for (const type of ['text/plain', 'application/json'])
              await get(page, base + route, {
                ...{
                  method: 'POST',
                  mode: type === 'text/plain' ? 'no-cors' : 'cors',
                  credentials: 'include',
                },
                ...{
                  headers: { 'content-type': type },
                  body: JSON.stringify({ command: 'echo > attacked' }),
                },
              })
        expect([await red.files.exists('attacked'), await blue.files.exists('attacked')]).toEqual([
          false,
          false,
        ])
        // On its own host, these are paths of the program.
        for (const route of ['/v1/sessions', '/console', '/forks/blue/v1/sessions'])
          expect(await get(page, route)).toContain('<p id=name>red</p>')
        const blues = `http://3000.blue.localhost:${port}`
        for (const options of [{}, { credentials: 'include' }])
          expect(await get(page, `${blues}/echo`, options)).toBe('TypeError')
        // Scripts and frames need no permission to read.
        const script = await page.evaluate(`new Promise((resolve) => {
          const element = Object.assign(document.createElement('script'), { src: '${blues}/secret.js' })
          element.onload = () => resolve('loaded')
          element.onerror = () => resolve('refused')
          document.head.append(element)
        })`)
        expect([script, await page.evaluate('window.stolen')]).toEqual(['refused', undefined])
        const sockets = await page.evaluate(
          (urls) =>
            Promise.all(
              urls.map(
                (url) =>
                  new Promise((resolve) => {
                    const socket = new WebSocket(url)
                    socket.onopen = () => resolve('open')
                    socket.onerror = () => resolve('refused')
                  }),
              ),
            ),
          [`ws://3000.blue.localhost:${port}/`, `ws://127.0.0.1:${port}/v1/processes/x/terminal`],
        )
        expect(sockets).toEqual(['refused', 'refused'])
        const framed = page.waitForResponse((reply) => reply.url() === `${blues}/framed`)
        await page.evaluate(
          `document.body.append(Object.assign(document.createElement('iframe'), { src: '${blues}/framed' }))`,
        )
        expect((await framed).status()).toBe(403)
        // Cookies of a page stay with its fork.
        await page.evaluate("document.cookie = 'tossed=1; domain=localhost'")
        const sent = await context.cookies([`${blues}/`, ...server])
        expect(sent.map(({ name }) => name)).not.toContain('tossed')
        expect(JSON.parse(await get(other, '/echo')).cookie).toBe('own=blue; wide=blue')
        // Nor can it stay when its program has ended.
        expect(
          await page.evaluate(
            "navigator.serviceWorker.register('/secret.js').then(() => 'registered', ({ name }) => name)",
          ),
        ).not.toBe('registered')
      }, options))
})
