/**
 * Makes docs/public/console.png and console-phone.png, the pictures of the page "Console": `node docs/recording/console.mjs` in the
 * root, after a build. Needs Chromium. An argument names another directory.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { record } from '@nacre/console'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { chromium } from 'playwright-core'

const [, , target = 'docs/public'] = process.argv
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
const recordings = path.join(directory, 'recordings')
const recorder = await record(sandbox, { directory: recordings })
const server = await serve(sandbox, { port: 0, token: TOKEN, console: true, recordings })
const browser = await chromium.launch({
  executablePath: execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
  args: ['--no-sandbox'],
})
try {
  // A page shows the output of what runs while it is open.
  const pages = [
    [await open({ width: 1280, height: 900 }, 'dark'), 'console.png'],
    [await open({ width: 390, height: 780 }, 'light'), 'console-phone.png'],
  ]
  const build = await sandbox.createSession({ id: 'build' })
  const building = build.exec(
    'for step in {1..9}; do echo "[$step/240] compile module-$step.c"; done; exec sleep 600',
  )
  await sandbox.exec('ls; node --test')
  await sandbox.exec('git status --short')
  await sandbox.exec(
    'sed -i "s/Shop/The shop/" README.md; echo "module.exports = 3" >price.js; rm tax.test.js',
  )
  const tests = await sandbox.createSession({ id: 'tests' })
  await tests.exec(
    'for test in {1..5}; do echo "ok $test"; done; echo "not ok 6 - tax of an empty cart"; exit 1',
  )
  await sandbox.startProcess('while echo "$(date +%T) GET /cart 200"; do sleep 1; done', {
    processId: 'shop',
  })
  const login = await sandbox.startProcess('read -rsp "Password for deploy@shop: " word', {
    processId: 'login',
    pty: { cols: 80, rows: 12 },
  })
  await login.waitForInput()
  const psql = await sandbox.startProcess('PS1="shop=> " bash --norc', {
    processId: 'psql',
    pty: { cols: 80, rows: 12 },
  })
  const hold = await psql.hold('the agent that migrates')
  await hold.held.write('echo "ALTER TABLE"\n')
  const fetching = sandbox.exec('curl -s http://example.com/rates.json').catch(() => {})
  while ((await sandbox.questions()).length === 0) await new Promise((resolve) => setTimeout(resolve, 50))
  await pages[0][0].getByText('GET /cart 200').nth(5).waitFor()
  for (const [page, name] of pages) await take(page, name)
  for (const { id } of await sandbox.questions()) await sandbox.answer(id, 'deny')
  await hold.release()
  for (const { id } of await build.running()) await build.killCommand(id)
  await Promise.all([fetching, building])
} finally {
  await browser.close()
  await recorder.close()
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
  await page.getByText('Password for deploy@shop').first().waitFor()
  // In their final order, with the counts of both lists.
  await page.locator('article').first().and(page.locator('[data-place$="/ login"]')).waitFor()
  await page.locator('article').nth(1).and(page.locator('[data-place=tests]')).waitFor()
  await page.locator('#workspace h2', { hasText: '3' }).waitFor({ state: 'attached' })
  await page.mouse.move(0, 0)
  await page.evaluate(() => scrollTo(0, 0))
  await page.screenshot({ path: path.join(target, name) })
}
