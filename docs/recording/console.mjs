/**
 * Makes docs/public/console.png and console-phone.png, the pictures of the page "Console": `node docs/recording/console.mjs` in the
 * root, after a build. Needs Chromium.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { chromium } from 'playwright-core'

const TOKEN = 'a-token-for-pictures'
const directory = mkdtempSync(path.join(os.tmpdir(), 'shop-'))
const project = path.join(directory, 'shop')
execFileSync('git', ['init', '--quiet', project])
for (const name of ['cart', 'price', 'tax'])
  writeFileSync(path.join(project, `${name}.test.js`), `require('node:test')('${name}', () => {})\n`)
writeFileSync(path.join(project, 'README.md'), '# Shop\n')

const sandbox = new Sandbox({
  cwd: project,
  workspace: 'copy-on-write',
  isolation: { preset: 'workspace', network: { allow: [], ask: true } },
})
const server = await serve(sandbox, { port: 0, token: TOKEN, console: true })
const browser = await chromium.launch({
  executablePath: execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
  args: ['--no-sandbox'],
})
try {
  // A page shows the output of what runs while it is open.
  const wide = await open({ width: 1280, height: 900 }, 'dark')
  const phone = await open({ width: 390, height: 780 }, 'light')
  await sandbox.exec('ls; node --test')
  await sandbox.exec('git status --short')
  await sandbox.exec('cat price.js')
  const tests = await sandbox.createSession({ id: 'tests' })
  await tests.exec('for test in {1..14}; do echo "ok $test"; done')
  await sandbox.startProcess('while echo "$(date +%T) GET /cart 200"; do sleep 1; done', {
    processId: 'shop',
  })
  const login = await sandbox.startProcess('read -rsp "Password for deploy@shop: " word', {
    processId: 'login',
    pty: { cols: 80, rows: 12 },
  })
  await login.waitForInput()
  await sandbox.exec('sed -i "s/Shop/The shop/" README.md; echo "module.exports = 3" >price.js')
  const fetching = sandbox.exec('curl -s http://example.com/rates.json').catch(() => {})
  while ((await sandbox.questions()).length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  await wide.getByText('GET /cart 200').nth(1).waitFor()
  await take(wide, 'console.png')
  await take(phone, 'console-phone.png')
  for (const { id } of await sandbox.questions()) await sandbox.answer(id, 'deny')
  await fetching
} finally {
  await browser.close()
  await server.close()
  await sandbox.destroy()
  rmSync(directory, { recursive: true, force: true })
}

async function open(viewport, colorScheme) {
  const page = await (await browser.newContext({ viewport, colorScheme })).newPage()
  await page.goto(`${server.url}/console#token=${TOKEN}`)
  await page.getByText('connected').waitFor()
  return page
}

async function take(page, name) {
  await page.getByText('wants to connect to').waitFor()
  await page.getByText('Password for deploy@shop').first().waitFor()
  await page.getByRole('button', { name: 'Refresh' }).click()
  await page.getByText('Changes (2)').waitFor()
  await page.mouse.move(0, 0)
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: path.join('docs/public', name) })
}
