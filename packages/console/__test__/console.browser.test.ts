/** The console in the Chromium of the system, on a real server. */
import { record } from '@nacre/console'
import { serve } from '@nacre/server'
import { type IsolationRules, Sandbox } from 'nacre'
import type { Page } from 'playwright-core'
import { describe, expect, it } from 'vitest'
import { findingsOfAxe, useChromium } from '../../../__test__/helpers/chromium.js'
import { startOrigin } from '../../../__test__/helpers/origin.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { holds, until } from '../../../__test__/helpers/until.js'

const TOKEN = 'a-token-for-the-console'
const browser = useChromium()

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
  height?: number
  scheme?: 'dark' | 'light'
  workspace?: boolean
  isolation?: IsolationRules
}

async function withConsole(test: (place: Place) => Promise<void>, given: Given = {}): Promise<void> {
  const {
    hash = `token=${TOKEN}`,
    width = 1280,
    height = 900,
    scheme = 'light',
    workspace = false,
    recordings,
    isolation,
  } = given
  const directory = temporary('nacre-console-')
  await using sandbox = new Sandbox({
    env: { NACRE_CONSOLE_TEST: 'yes' },
    ...(isolation && { isolation }),
    ...(workspace ? { cwd: directory, workspace: { mode: 'copy-on-write', undoSteps: 5 } } : {}),
  })
  const serving = await serve(sandbox, { port: 0, token: TOKEN, console: true, recordings })
  const context = await browser().newContext({ viewport: { width, height }, colorScheme: scheme })
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
  }
}

const tile = (page: Page, name: string) => page.locator(`article[data-place$="${name}"]`)

/** The tiles in their order. */
function placesOf(page: Page): Promise<(string | null)[]> {
  return page.locator('article').evaluateAll((tiles) => tiles.map((tile) => tile.getAttribute('data-place')))
}

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
      await holds(async () => (await page.title()) === '(1) nacre console')
      await page.click(`${selector} button:text("Take over")`)
      await shows(page, selector, 'Hand back')
      await expect(process.write('no\n')).rejects.toMatchObject({ code: 'HELD' })
      await page.keyboard.type('secret\n')
      await shows(page, selector, 'got secret')
      await page.keyboard.press('F6')
      await page.keyboard.press('Enter')
      await page.keyboard.type('logged in\n')
      await shows(page, selector, 'Take over')
      await process.getStatus()
      expect(process.handedBack).toMatchObject({
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

  it('lists requests to hosts with rules, with a filter', async () => {
    const origin = await startOrigin()
    const host = `localhost:${origin.port}`
    const requests = { [host]: ['GET /**'] }
    await withConsole(
      async ({ page, sandbox, problems }) => {
        await shows(page, '#state', 'connected')
        expect(await page.isVisible('#requests')).toBe(false)
        await sandbox.exec(`curl -s https://${host}/first; curl -s -d x https://${host}/second`)
        await shows(page, '#requests h2', 'Requests 2')
        await shows(page, '#requests tbody', /POST \/second.*denied: rule.*GET \/first.*200/s)
        expect(await findingsOfAxe(page)).toEqual([])
        const rows = page.locator('#requests tbody tr')
        await page.check('#requests input[type=checkbox]')
        await holds(async () => (await rows.count()) === 1)
        await page.uncheck('#requests input[type=checkbox]')
        await page.fill('#requests input[type=search]', 'get /F')
        await holds(async () => (await rows.count()) === 1)
        await page.fill('#requests input[type=search]', 'other')
        await shows(page, '#requests', 'No request is like that.')
        expect(problems).toEqual([])
      },
      { isolation: { network: { allow: [], authorities: [origin.authority], requests } } },
    )
    origin.close()
  })

  it('lists what was refused, with the rule and what would allow it', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        await shows(page, '#state', 'connected')
        expect(await page.isVisible('#denials')).toBe(false)
        await sandbox.exec('touch /opt/new; unshare -U true; true')
        await shows(page, '#denials h2', 'Refused 2')
        const syscall = /unshare\(CLONE_NEWUSER\).*syscall.*unshare.*isolation/s
        const write = /\/opt\/new.*write.*isolation\.filesystem\.write with \/opt/s
        await shows(page, '#denials tbody', new RegExp(`${syscall.source}.*${write.source}`, 's'))
        expect(await findingsOfAxe(page)).toEqual([])
        const rows = page.locator('#denials tbody tr')
        await page.fill('#denials input[type=search]', 'CLONE_')
        await holds(async () => (await rows.count()) === 1)
        await page.fill('#denials input[type=search]', 'other')
        await shows(page, '#denials', 'Nothing that was refused is like that.')
        expect(problems).toEqual([])
      },
      { isolation: { preset: 'workspace', explain: true } },
    ))

  it('asks whether programs may connect to a host', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        const get = (port: number) => `curl -s -o /dev/null -w '%{http_code} ' http://192.0.2.77:${port}`
        const both = sandbox.exec(`${get(1)} & ${get(2)} & wait`)
        await shows(page, '#questions', 'Session default wants to connect to 192.0.2.77:1')
        await shows(page, '#questions', 'Session default wants to connect to 192.0.2.77:2')
        await holds(async () => (await page.title()) === '(2) nacre console')
        expect(await findingsOfAxe(page)).toEqual([])
        await page.click('button[aria-label="Deny: 192.0.2.77:1"]')
        await holds(async () => (await page.locator('#questions strong').count()) === 1)
        await page.click('button[aria-label="Deny: 192.0.2.77:2"]')
        expect(await both).toMatchObject({ stdout: '403 403 ' })
        await shows(page, '#questions', /^$/)
        expect(problems).toEqual([])
      },
      { isolation: { network: { allow: [], ask: true } } },
    ))

  it('says which command asks, and until when', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        const command = 'curl -s http://192.0.2.77:1; true'
        const running = sandbox.exec(command)
        await shows(page, '#questions', command)
        const [question] = await sandbox.questions()
        const until = await page.evaluate(
          (time) => new Date(time).toLocaleTimeString(),
          question?.expiresAt.getTime() ?? 0,
        )
        await shows(page, '#questions', `Answer by ${until}`)
        const web = await sandbox.startProcess('exec sleep 100', { processId: 'web' })
        const another = sandbox.execStream('curl -s http://192.0.2.77:2; true', { sessionId: 'default' })
        await page.click('button[aria-label="Deny: 192.0.2.77:1"]')
        // The process can have asked as well.
        await shows(page, '#questions .asks', 'curl -s http://192.0.2.77:2; true (or web)')
        await page.click('button[aria-label="Deny: 192.0.2.77:2"]')
        await Promise.all([running, another, web.kill()])
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
      await shows(page, '#questions', 'Session default wants to connect to 192.0.2.77:1')
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

  it('takes hunks of a change back, and commits others', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        await sandbox.exec('seq 40 > lines; echo {} > package-lock.json')
        await sandbox.workspace.commit()
        await sandbox.exec("sed -i 's/^2$/two/; s/^30$/thirty/' lines; echo '[]' > package-lock.json")
        await shows(page, '#workspace h2', 'Changes 2')
        await page.click('#workspace button[aria-label="modified package-lock.json"]')
        await shows(page, 'dialog', 'Generated: a lock file')
        await page.click('dialog button:text("Take back")')
        await shows(page, '#workspace h2', 'Changes 1')
        await page.click('#workspace button[aria-label="modified lines"]')
        await shows(page, 'dialog', /-2\s+\+two.*-30\s+\+thirty/s)
        await page.click('dialog button:text("Take back")')
        await holds(async () => (await sandbox.exec('sed -n 2p lines')).stdout === '2\n')
        await page.click('#workspace button[aria-label="modified lines"]')
        await shows(page, 'dialog', '+thirty')
        await page.click('dialog button:text("Commit")')
        await shows(page, '#workspace', 'Changes 0')
        expect((await sandbox.exec('sed -n "2p;30p" lines')).stdout).toBe('2\nthirty\n')
        expect(problems).toEqual([])
      },
      { workspace: true },
    ))

  it('shows the changes of a workspace, and undoes, discards and commits', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        await sandbox.exec('echo one > first')
        await sandbox.exec('echo two > second')
        await shows(page, '#workspace h2', 'Changes 2')
        await shows(page, '#workspace .rows', /created\s+first\s+4 B\s+\d/)
        await page.click('#workspace button[aria-label="created first"]')
        await shows(page, '.diff', '+one')
        await page.click('dialog button:text("Close")')
        await page.click('#workspace button:text("Undo")')
        await page.click('dialog button:text("Undo")')
        await shows(page, '#workspace', 'Changes 1')
        await page.click('#workspace button:text("Commit")')
        await page.click('dialog button:text("Commit")')
        await shows(page, '#workspace', 'Changes 0')
        expect(await page.isDisabled('#workspace button:text("Commit")')).toBe(true)
        expect(await page.isDisabled('#workspace button:text("Discard")')).toBe(true)
        await page.click('#workspace button:text("Undo")')
        await page.click('dialog button:text("Undo")')
        await shows(page, '#notice', 'no command to take back')
        expect(await page.isDisabled('#workspace button:text("Undo")')).toBe(true)
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
      async ({ page, sandbox, close }) => {
        await page.fill('dialog input', TOKEN)
        await page.keyboard.press('Enter')
        await shows(page, '#state', 'connected')
        await sandbox.startProcess('exec sleep 1000', { processId: 'web' })
        void sandbox.exec('exec sleep 1000').catch(() => {})
        await sandbox.createSession({ id: 'idle' })
        await shows(page, 'article[data-place="default"] .state', 'running')
        await shows(page, 'article[data-place$="/ web"] .state', 'running')
        await close()
        await shows(page, '#state', /does not answer|connection lost|has ended/)
        await holds(async () => !(await page.innerText('body')).includes('running'))
        for (const name of ['Kill', 'Take over'])
          for (const button of await page.locator(`article button:text("${name}")`).all())
            expect(await button.isDisabled()).toBe(true)
      },
      { hash: '', workspace: true },
    ))

  it('plays recordings, and jumps to a command', async () => {
    const directory = temporary('nacre-console-')
    await withConsole(
      async ({ page, sandbox, problems }) => {
        const recorder = await record(sandbox, { directory })
        await sandbox.exec('echo first')
        await sandbox.exec('sleep 3; echo second')
        await recorder.close()
        await shows(page, '#recordings h2', 'Recordings 1')
        await shows(page, '#recordings .rows', /session\s+default-0001\.cast\.gz.*B\s+\d/s)
        await page.click('#recordings button[aria-label^="Play session-default"]')
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
        // It goes to a time, and says which.
        const slider = page.locator('dialog.player input[type=range]')
        await slider.focus()
        await page.keyboard.press('Home')
        await shows(page, 'dialog.player .time', /^0:0\d \/ 0:0\d$/)
        await page.keyboard.press('End')
        await shows(page, 'dialog.player .xterm-rows', /first.*\bsecond\b.*/s)
        await shows(page, 'dialog.player .time', /^(0:0\d) \/ \1$/)
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
  })

  it('puts first what waits for a person, then what has failed, and counts both', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      await shows(page, '#counts', /0 wait for you\s+0 failed/)
      await sandbox.exec('true')
      await sandbox.startProcess('exit 4', { processId: 'fails' })
      await sandbox.startProcess('exec sleep 1000', { processId: 'runs' })
      await sandbox.startProcess('read -r x', { pty: true, processId: 'asks' })
      await (await sandbox.startProcess('exec sleep 1000', { processId: 'was-killed' })).kill()
      await shows(page, '#counts', /1 waits for you\s+1 failed\s+runs longest: runs, \d+ s/)
      const places = [
        'default / asks',
        'default / fails',
        'default',
        'default / runs',
        'default / was-killed',
      ]
      await until(
        async () => JSON.stringify(await placesOf(page)) === JSON.stringify(places) || undefined,
        () => 'the tiles are in another order',
        15_000,
      )
      await page.click('#counts button:text("1 failed")')
      expect(await page.evaluate('document.activeElement.closest("article").dataset.place')).toBe(
        'default / fails',
      )
      await page.click('article[data-place$="/ fails"] button:text("Dismiss")')
      await shows(page, '#counts', '0 failed')
      expect(await page.isDisabled('#counts button:text("0 failed")')).toBe(true)
      expect(problems).toEqual([])
    }))

  it('moves no tile while a person uses the page', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      await sandbox.startProcess('exec sleep 1000', { processId: 'first', input: 'pipe' })
      await shows(page, 'article[data-place$="/ first"] .state', 'running')
      await page.click('article[data-place$="/ first"] button:text("Take over")')
      await shows(page, 'article[data-place$="/ first"]', 'Hand back')
      await sandbox.startProcess('read -r x', { pty: true, processId: 'asks' })
      await shows(page, '#counts', '1 waits for you')
      expect((await placesOf(page)).at(-1)).toBe('default / asks')
      await page.click('article[data-place$="/ first"] button:text("Hand back")')
      await page.click('dialog button:text("Hand back")')
      await until(
        async () => (await placesOf(page))[0] === 'default / asks' || undefined,
        () => 'it stays last',
        15_000,
      )
      expect(problems).toEqual([])
    }))

  it('titles a tile with its id, and shows the command below it', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      const command = 'echo "a long command"; exec sleep 1000'
      await sandbox.createSession({ id: 'tests' })
      await sandbox.startProcess(command, { processId: 'web', sessionId: 'tests' })
      const selector = 'article[data-place="tests / web"]'
      await shows(page, `${selector} h2`, /^web$/)
      await shows(page, `${selector} small`, 'process in tests')
      await shows(page, `${selector} .command`, command)
      await shows(page, `${selector} .state`, /^running \d+ s$/)
      await page.fill('#top input', 'long command')
      await holds(async () => (await page.locator('article:visible').count()) === 1)
      await page.fill('#top input', '')
      await page.locator('article[data-place="default"]').waitFor()
      await sandbox.exec('echo shown again')
      await shows(page, 'article[data-place="default"]', 'shown again')
      expect(problems).toEqual([])
    }))

  it('grows with the output, from 3 to 16 lines', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      const selector = 'article[data-place="default"]'
      const linesOf = async (tile: string) => {
        const { height = 0 } = (await page.locator(`${tile} .screen`).boundingBox()) ?? {}
        const line = (await page.locator(`${tile} .xterm-rows > div`).first().boundingBox())?.height ?? 1
        // Without the padding.
        return Math.round((height - 12) / line)
      }
      const grows = async (tile: string, lines: number) =>
        until(
          async () => (await linesOf(tile)) === lines || undefined,
          () => `${tile} has not ${lines} lines`,
        )
      await grows(selector, 3)
      // The command, its output, its end, and the line of the cursor.
      await sandbox.exec('seq 5')
      await grows(selector, 8)
      await sandbox.exec('seq 100')
      await grows(selector, 16)
      await sandbox.startProcess('seq 6; exec sleep 1000', { pty: true, processId: 'terminal' })
      await grows('article[data-place$="/ terminal"]', 7)
      await page.click(`${selector} button:text("Expand")`)
      await holds(async () => (await linesOf(selector)) > 16)
      expect(problems).toEqual([])
    }))

  it('says who holds a terminal, and does not offer it', () =>
    withConsole(async ({ page, sandbox, problems }) => {
      const process = await sandbox.startProcess('read -r x', { pty: true, processId: 'asks' })
      const selector = 'article[data-place$="/ asks"]'
      await shows(page, `${selector} .badge`, 'bash waits for input')
      const hold = await process.hold('another agent')
      await shows(page, `${selector} .holder`, 'held by another agent')
      await shows(page, `${selector} .badge`, /^$/)
      await shows(page, '#counts', '0 wait for you')
      expect(await page.isDisabled(`${selector} button:text("Take over")`)).toBe(true)
      await hold.release()
      await shows(page, `${selector} .holder`, /^$/)
      await page.click(`${selector} button:text("Take over")`)
      await shows(page, `${selector} .holder`, 'held by you')
      await process.kill()
      await shows(page, `${selector} .state`, 'killed by caller')
      expect(await page.isDisabled(`${selector} button:text("Kill")`)).toBe(true)
      expect(await page.isDisabled(`${selector} button:text("Take over")`)).toBe(true)
      expect(problems).toEqual([])
    }))

  it('says what to run while nothing has run', () =>
    withConsole(async ({ page, sandbox, url, problems }) => {
      await shows(page, '#empty pre', `curl ${url}/v1/exec`)
      const command = (await page.innerText('#empty pre')).replaceAll('\u00a0', ' ')
      await using other = new Sandbox()
      const { stdout } = await other.exec(command, { env: { TOKEN } })
      expect(JSON.parse(stdout)).toMatchObject({ result: { success: true } })
      await shows(page, 'article[data-place="default"]', 'hello')
      await page.locator('#empty').waitFor({ state: 'hidden' })
      await sandbox.exec('true')
      expect(problems).toEqual([])
    }))

  it('shows many processes at once, and its buttons work then', () =>
    withConsole(
      async ({ page, sandbox, problems }) => {
        // A browser has six connections to a server.
        for (let number = 0; number < 9; number++)
          await sandbox.startProcess(`echo ready ${number}; exec sleep 1000`, {
            ...{ processId: `tile-${number}`, pty: number === 0 },
          })
        for (let number = 0; number < 9; number++)
          await shows(page, `article[data-place$="/ tile-${number}"] .screen`, `ready ${number}`)
        await page.click('article[data-place$="/ tile-0"] button:text("Take over")')
        await shows(page, 'article[data-place$="/ tile-0"]', 'held by you')
        await page.click('article[data-place$="/ tile-7"] button:text("Take over")')
        await shows(page, '#notice', 'tile-7 has no open input')
        await until(
          () =>
            page
              .locator('article[data-place$="/ tile-7"] button:text("Take over"):disabled')
              .count()
              .then((count) => count === 1 || undefined),
          () => 'it offers it again',
        )
        await page.click('article[data-place$="/ tile-8"] button:text("Kill")')
        await page.keyboard.press('Enter')
        await shows(page, 'article[data-place$="/ tile-8"] .state', 'killed by caller')
        const late = await sandbox.startProcess('read -r x; echo "got $x"', {
          ...{ input: 'pipe', processId: 'late' },
        })
        await shows(page, 'article[data-place$="/ late"] .state', 'running')
        await late.write('it\n')
        await shows(page, 'article[data-place$="/ late"] .screen', 'got it')
        expect(problems).toEqual([])
      },
      { height: 3000 },
    ))

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
            expect(await findingsOfAxe(page)).toEqual([])
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
      await holds(async () => await kill.isEnabled())
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
