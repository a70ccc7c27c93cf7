/** The console in the Chromium of the system, on a real server. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { record } from '@nacre/console'
import { serve } from '@nacre/server'
import { type IsolationRules, Sandbox } from 'nacre'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchChromium } from '../../../__test__/helpers/chromium.js'
import { until } from '../../../__test__/helpers/until.js'

const TOKEN = 'a-token-for-the-console'
/** The source of axe, which the policy of the page would not load. */
const AXE = readFileSync(createRequire(__filename).resolve('axe-core/axe.min.js'), 'utf8')
let browser: Browser

beforeAll(async () => {
  browser = await launchChromium()
}, 60_000)

afterAll(async () => {
  await browser?.close()
})

interface Place {
  page: Page
  sandbox: Sandbox
  url: string
  /** Errors and violations of the policy, and requests to other hosts. */
  problems: string[]
  close(): Promise<void>
}

interface Given {
  recordings?: string
  /** The part of the address after `#`. */
  hash?: string
  width?: number
  scheme?: 'dark' | 'light'
  workspace?: boolean
  isolation?: IsolationRules
}

async function withConsole(test: (place: Place) => Promise<void>, given: Given = {}): Promise<void> {
  const {
    hash = `token=${TOKEN}`,
    width = 1280,
    scheme = 'light',
    workspace = false,
    recordings,
    isolation,
  } = given
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-console-'))
  await using sandbox = new Sandbox({
    env: { NACRE_CONSOLE_TEST: 'yes' },
    ...(isolation && { isolation }),
    ...(workspace ? { cwd: directory, workspace: { mode: 'copy-on-write', undoSteps: 5 } } : {}),
  })
  const serving = await serve(sandbox, { port: 0, token: TOKEN, console: true, recordings })
  const context = await browser.newContext({ viewport: { width, height: 900 }, colorScheme: scheme })
  const page = await context.newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    // The browser reports each refused call; the page shows those that matter.
    const isRefusal = message.text().startsWith('Failed to load resource')
    if (message.type() === 'error' && !isRefusal) problems.push(message.text())
  })
  page.on('request', (request) => {
    if (!request.url().startsWith(serving.url) && !request.url().startsWith('data:'))
      problems.push(`request to ${request.url()}`)
  })
  try {
    await page.goto(`${serving.url}/console#${hash}`)
    await test({ page, sandbox, url: serving.url, problems, close: () => serving.close().then(() => {}) })
  } finally {
    await context.close()
    await serving.close()
    rmSync(directory, { recursive: true, force: true })
  }
}

const tile = (page: Page, name: string) => page.locator(`article[data-place$="${name}"]`)

async function shows(page: Page, selector: string, wanted: string | RegExp): Promise<void> {
  let text = ''
  await until(
    async () => {
      text = (await page.locator(selector).innerText()).replaceAll('\u00a0', ' ')
      return (typeof wanted === 'string' ? text.includes(wanted) : wanted.test(text)) || undefined
    },
    () => `${selector} does not show ${wanted}, but ${JSON.stringify(text)}`,
    15_000,
  )
}

describe('the console', () => {
  it('shows sessions, commands and processes as they happen, and keeps the token out of the address', () =>
    withConsole(async ({ page, sandbox, url, problems }) => {
      await shows(page, '#state', 'connected')
      expect(page.url()).toBe(`${url}/console`)
      await sandbox.exec('echo hello from a command; exit 3')
      await shows(page, 'article[data-place="default"]', 'hello from a command')
      await shows(page, '#history tbody', /default\s+echo hello from a command; exit 3\s+exit 3/)
      const process = await sandbox.startProcess('printf "\\033[2J\\033[3;5Hdrawn here"; exec sleep 100', {
        processId: 'draws',
        pty: { cols: 60, rows: 10 },
      })
      await shows(page, 'article[data-place$="/ draws"]', 'drawn here')
      await shows(page, 'article[data-place$="/ draws"] .usage', /CPU, .*B, 1 process$/)
      await shows(page, '#stats', /^1 session, \d+ process/)
      await process.kill()
      await shows(page, 'article[data-place$="/ draws"] .state', 'killed by caller')
      await page.fill('#top input', 'draws')
      expect(await tile(page, 'default').first().isVisible()).toBe(false)
      expect(problems).toEqual([])
    }))

  it('shows that a program waits; a person takes over, types a password, and hands back', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      const process = await sandbox.startProcess('read -rsp "Password: " p; echo; echo "got $p"; exec cat', {
        processId: 'asks',
        pty: true,
      })
      const selector = 'article[data-place$="/ asks"]'
      await shows(page, `${selector} .badge`, 'waits for a password')
      await until(
        async () => (await page.title()) === '(1) nacre console' || undefined,
        () => 'the title does not count',
      )
      await page.click(`${selector} button:text("Take over")`)
      await shows(page, selector, 'Hand back')
      await expect(process.write('no\n')).rejects.toMatchObject({ code: 'HELD' })
      await page.keyboard.type('secret\n')
      await shows(page, selector, 'got secret')
      await page.keyboard.press('F6')
      await page.keyboard.press('Enter')
      await page.keyboard.type('logged in\n')
      await shows(page, selector, 'Take over')
      expect((await process.refresh()).handedBack).toMatchObject({
        ...{ owner: 'a person at the console', note: 'logged in' },
      })
      await process.write('again\n')
      await shows(page, selector, 'again')
      await shows(page, `${selector} .badge`, 'cat waits for input')
      const busy = await sandbox.startProcess('read -r line; exec sleep 100', {
        processId: 'busy',
        pty: true,
      })
      await shows(page, 'article[data-place$="/ busy"] .badge', 'bash waits for input')
      await busy.write('\n')
      await shows(page, 'article[data-place$="/ busy"] .badge', /^$/)
      expect(problems).toEqual([])
    }))

  it('keeps the newest line in sight', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      const selector = 'article[data-place="default"]'
      await sandbox.exec('seq 25')
      await shows(page, selector, '[exit 0')
      await until(
        async () => {
          const screen = await page.locator(`${selector} .screen`).boundingBox()
          const line = await page
            .locator(`${selector} .xterm-rows > div`, { hasText: '[exit 0' })
            .boundingBox()
          if (screen === null || line === null) return undefined
          return (line.y >= screen.y && line.y + line.height <= screen.y + screen.height) || undefined
        },
        () => 'the line is out of sight',
      )
      expect(problems).toEqual([])
    }))

  it('asks whether programs may connect to a host', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        const get = (port: number) => `curl -s -o /dev/null -w '%{http_code} ' http://192.0.2.77:${port}`
        const both = sandbox.exec(`${get(1)} & ${get(2)} & wait`)
        await shows(page, '#questions', 'session default wants to connect to 192.0.2.77:1')
        await shows(page, '#questions', 'session default wants to connect to 192.0.2.77:2')
        await until(
          async () => (await page.title()) === '(2) nacre console' || undefined,
          () => 'the title does not count',
        )
        await page.evaluate(AXE)
        const violations = await page.evaluate(
          "axe.run({ exclude: ['.xterm'] }).then(({ violations }) => violations)",
        )
        expect(violations).toEqual([])
        await page.click('button[aria-label="Deny: 192.0.2.77:1"]')
        await until(
          async () => !(await page.innerText('#questions')).includes('77:1') || undefined,
          () => 'the question stays',
        )
        await page.click('button[aria-label="Deny: 192.0.2.77:2"]')
        expect(await both).toMatchObject({ stdout: '403 403 ' })
        await shows(page, '#questions', /^$/)
        expect(problems).toEqual([])
      },
      { isolation: { network: { allow: [], ask: true } } },
    ))

  it('removes a question that turns out to be closed', () =>
    withConsole(async ({ page, url, problems }) => {
      const times = { askedAt: new Date(), expiresAt: new Date() }
      const question = { id: '7', sessionId: 'default', target: '192.0.2.77:1', ...times }
      await page.route('**/v1/questions', async (route) =>
        route.fulfill({ response: await route.fetch(), json: { questions: [question] } }),
      )
      await page.goto('about:blank')
      await page.goto(`${url}/console#token=${TOKEN}`)
      await shows(page, '#questions', 'session default wants to connect to 192.0.2.77:1')
      await page.click('button[aria-label="Deny: 192.0.2.77:1"]')
      await shows(page, '#questions', /^$/)
      expect(problems).toEqual([])
    }))

  it('lets a person use a session, and kill with a reason', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      await sandbox.exec('cd /usr; word=kept')
      const selector = 'article[data-place="default"]'
      await page.click(`${selector} button:text("Take over")`)
      await page.fill(`${selector} form input`, 'echo "$word in $PWD"')
      await page.keyboard.press('Enter')
      await shows(page, selector, 'kept in /usr')
      await expect(sandbox.exec('true')).rejects.toMatchObject({ code: 'HELD' })
      await page.click(`${selector} button:text("Hand back")`)
      await shows(page, selector, 'Take over')
      const running = sandbox.exec('exec sleep 100')
      await page.click(`${selector} button:text("Kill")`)
      await page.fill('dialog input', 'too slow')
      await page.click('dialog button:text("Kill")')
      expect((await running).killedBy).toEqual({ by: 'caller', reason: 'too slow' })
      await shows(page, selector, 'killed by caller: too slow')
      expect(problems).toEqual([])
    }))

  it('shows the changes of a workspace, and undoes, discards and commits', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        await sandbox.exec('echo one > first')
        await sandbox.exec('echo two > second')
        await page.click('#workspace button:text("Refresh")')
        await shows(page, '#workspace', 'Changes (2)')
        await page.click('#workspace button:text("created first")')
        await shows(page, '.diff', '+one')
        await page.click('#workspace button:text("Undo")')
        await page.click('dialog button:text("Undo")')
        await shows(page, '#workspace', 'Changes (1)')
        await page.click('#workspace button:text("Commit")')
        await page.click('dialog button:text("Commit")')
        await shows(page, '#workspace', 'Changes (0)')
        await sandbox.exec('echo three > third')
        await page.click('#workspace button:text("Discard")')
        await page.click('dialog button:text("Discard")')
        await shows(page, '#notice', '1 changes are gone')
        expect((await sandbox.exec('ls')).stdout).toContain('first')
        expect(problems).toEqual([])
      },
      { workspace: true },
    ))

  it('asks for the token, and says that the connection is lost', () =>
    withConsole(
      async ({ page, close }) => {
        await page.fill('dialog input', TOKEN)
        await page.keyboard.press('Enter')
        await shows(page, '#state', 'connected')
        await close()
        await shows(page, '#state', /does not answer|connection lost|has ended/)
      },
      { hash: '' },
    ))

  it('plays recordings, and jumps to a command', async () => {
    const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-console-'))
    try {
      await withConsole(
        async ({ page, sandbox, problems }) => {
          const recorder = await record(sandbox, { directory })
          await sandbox.exec('echo first')
          await sandbox.exec('sleep 3; echo second')
          await recorder.close()
          await page.click('#recordings button:text("Refresh")')
          await page.click('#recordings button:text("Play session-default")')
          await shows(page, 'dialog.player .xterm-rows', /first.*second/s)
          await shows(page, 'dialog.player', 'Play')
          await page.selectOption('dialog.player select[aria-label="Speed"]', '8')
          await page.selectOption('dialog.player select[aria-label="Jump to"]', {
            label: 'sleep 3; echo second',
          })
          await page.click('dialog.player button:text("Pause")')
          await shows(page, 'dialog.player .xterm-rows', 'first')
          await page.click('dialog.player button:text("Play")')
          await shows(page, 'dialog.player .xterm-rows', /first.*\bsecond\b.*/s)
          // From its end, it plays once more, with the pauses of at most two seconds.
          await page.selectOption('dialog.player select[aria-label="Speed"]', '1')
          const began = Date.now()
          await page.click('dialog.player button:text("Play")')
          await page.waitForSelector('dialog.player button:text("Play")')
          expect(Date.now() - began).toBeGreaterThan(1500)
          await page.click('dialog.player button:text("Close")')
          await page.locator('dialog').waitFor({ state: 'detached' })
          expect(problems).toEqual([])
        },
        { recordings: directory },
      )
    } finally {
      rmSync(directory, { recursive: true, force: true })
    }
  })

  it('stays quick with 50 tiles, one of which prints without end', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      for (let number = 0; number < 49; number++)
        await sandbox.startProcess('echo ready; exec sleep 1000', { pty: true, processId: `tile-${number}` })
      await sandbox.startProcess('exec yes 0123456789', { processId: 'prints', logLimit: 1024 * 1024 })
      await until(
        async () => (await page.locator('article').count()) >= 50 || undefined,
        () => 'no 50 tiles',
        30_000,
      )
      await page.locator('article[data-place$="/ prints"]').scrollIntoViewIfNeeded()
      await shows(page, 'article[data-place$="/ prints"]', '0123456789')
      const selector = 'article[data-place$="/ tile-48"]'
      await page.click(`${selector} button:text("Expand")`)
      await shows(page, selector, 'Shrink')
      expect(problems).toEqual([])
    }))

  for (const scheme of ['light', 'dark'] as const) {
    for (const width of [390, 1280]) {
      it(`has no findings of axe, ${scheme}, ${width} px`, () =>
        withConsole(
          async ({ page, sandbox, problems }) => {
            await sandbox.exec('echo hello; false')
            await sandbox.startProcess('read -r x', { pty: true, processId: 'asks' })
            await shows(page, 'article[data-place$="/ asks"] .badge', 'waits for input')
            await page.evaluate(AXE)
            expect(
              await page.evaluate("axe.run({ exclude: ['.xterm'] }).then(({ violations }) => violations)"),
            ).toEqual([])
            const overflow = await page.evaluate(
              'document.documentElement.scrollWidth - document.documentElement.clientWidth',
            )
            expect(overflow).toBe(0)
            expect(problems).toEqual([])
          },
          { scheme, width },
        ))
    }
  }

  it('can be used by the keyboard alone', () =>
    withConsole(async ({ page, sandbox }) => {
      const running = sandbox.exec('exec sleep 100')
      const kill = page.locator('article[data-place="default"] button:text("Kill")')
      await until(
        async () => (await kill.isEnabled()) || undefined,
        () => 'no command',
      )
      await until(
        async () => {
          await page.keyboard.press('Tab')
          return (await kill.evaluate((element) => element.matches(':focus'))) || undefined
        },
        () => 'Kill is not reached',
      )
      await page.keyboard.press('Enter')
      await page.keyboard.type('by keyboard')
      await page.keyboard.press('Enter')
      expect((await running).killedBy?.reason).toBe('by keyboard')
    }))
})

describe('the server of the console', () => {
  it('gives the page to all, the data to those with the token, and nothing to other origins', () =>
    withConsole(async ({ url }) => {
      const page = await fetch(`${url}/console`)
      expect(page.headers.get('content-security-policy')).toContain("default-src 'none'; script-src 'self'")
      expect(page.headers.get('cache-control')).toBe('no-store')
      const [, script = ''] = /src="([^"]+)"/.exec(await page.text()) ?? []
      expect((await fetch(`${url}/${script}`)).headers.get('cache-control')).toContain('immutable')
      expect((await fetch(`${url}/console/none.js`)).status).toBe(401)
      expect((await fetch(`${url}/v1/sessions`)).status).toBe(401)
      const from = async (origin: string) =>
        (await fetch(`${url}/v1/sessions`, { headers: { origin, authorization: `Bearer ${TOKEN}` } })).status
      expect([await from(url), await from('http://127.0.0.1:1'), await from('https://example.com')]).toEqual([
        200, 403, 403,
      ])
    }))

  it('does not exist without the option', async () => {
    await using sandbox = new Sandbox()
    await using serving = await serve(sandbox, { port: 0 })
    expect((await fetch(`${serving.url}/console`)).status).toBe(404)
    expect((await fetch(`${serving.url}/v1/sessions`, { headers: { origin: serving.url } })).status).toBe(403)
  })
})
