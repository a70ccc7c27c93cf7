/** examples/web-terminal, driven by the Chromium of the system. */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchChromium } from '../helpers/chromium.js'
import { type Example, openExample } from '../helpers/example.js'
import { until } from '../helpers/until.js'

let example: Example
let program: ChildProcess
let address: string
let browser: Browser

beforeAll(async () => {
  browser = await launchChromium()
  example = await openExample('web-terminal', ['@nacre/server', '@xterm/xterm', '@xterm/addon-fit'])
  program = example.start('main.js')
  let printed = ''
  program.stdout?.on('data', (data) => {
    printed += data
  })
  address = await until(
    () => /^open (\S+)\n/.exec(printed)?.[1],
    () => `no address: ${printed}`,
  )
}, 60_000)

afterAll(async () => {
  await browser?.close()
  if (program?.exitCode === null && program.kill('SIGTERM')) await once(program, 'close')
  example?.remove()
})

/** A tab with the terminal. `problems` are errors of the page. */
async function openTab(): Promise<{ page: Page; problems: string[] }> {
  const page = await (await browser.newContext({ viewport: { width: 800, height: 500 } })).newPage()
  const problems: string[] = []
  page.on('pageerror', (error) => problems.push(error.message))
  page.on('console', (message) => {
    if (message.type() === 'error') problems.push(message.text())
  })
  await page.goto(address)
  await shows(page, '#status', 'connected')
  return { page, problems }
}

async function textOf(page: Page, selector: string): Promise<string> {
  return (await page.locator(selector).innerText()).replaceAll('\u00a0', ' ')
}

async function shows(page: Page, selector: string, wanted: string): Promise<void> {
  let text = ''
  await until(
    async () => {
      text = await textOf(page, selector)
      return text.includes(wanted) || undefined
    },
    () => `${selector} does not show ${JSON.stringify(wanted)}, but ${JSON.stringify(text)}`,
  )
}

const ROWS = '.xterm-rows'

describe('the web-terminal example', () => {
  it('types into a shell and shows what it prints', async () => {
    const { page, problems } = await openTab()
    await page.keyboard.type('echo "sum: $((40 + 2))"; tty\n')
    await shows(page, ROWS, 'sum: 42\n/dev/pts/')
    expect(problems).toEqual([])
    await page.context().close()
  })

  it('follows the size of the window', async () => {
    const { page } = await openTab()
    const wait = 'while [ "$(stty size)" = "$old" ]; do sleep 0.05; done'
    await page.keyboard.type(`old=$(stty size); echo "from $old"; ${wait}; echo "to $(stty size)"\n`)
    await shows(page, ROWS, '\nfrom ')
    await page.setViewportSize({ width: 1200, height: 700 })
    await shows(page, ROWS, '\nto ')
    const [, ...sizes] = /\nfrom (\d+) (\d+)\nto (\d+) (\d+)\n/.exec(await textOf(page, ROWS)) ?? []
    const [rows = 0, columns = 0, newRows = 0, newColumns = 0] = sizes.map(Number)
    expect([newRows > rows, newColumns > columns, rows > 10, columns > 40]).toEqual([true, true, true, true])
    await page.context().close()
  })

  it('has the same shell and its output after a reload', async () => {
    const { page } = await openTab()
    await page.keyboard.type('kept=here; echo "be$(echo fore)"\n')
    await shows(page, ROWS, '\nbefore\n')
    await page.reload()
    await shows(page, ROWS, '\nbefore\n')
    await page.keyboard.type('echo "it is $kept"\n')
    await shows(page, ROWS, '\nit is here\n')
    await page.context().close()
  })

  it('shows how the shell ended', async () => {
    const { page } = await openTab()
    await page.keyboard.type('exit 7\n')
    await shows(page, '#status', 'ended with exit code 7')
    await page.context().close()
  })

  it('refuses calls without the token', async () => {
    const api = new URLSearchParams(new URL(address).hash.slice(1)).get('api')
    expect((await fetch(`${api}/v1/processes`)).status).toBe(401)
  })
})
