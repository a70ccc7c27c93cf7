/**
 * Makes docs/public/forks.png, the picture of the page "Parallel agents": `node docs/recording/forks.mjs` in the root, after a build.
 * Needs Chromium and git. An argument names another directory.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { chromium } from 'playwright-core'

const [, , target = 'docs/public'] = process.argv
const directory = mkdtempSync(path.join(os.tmpdir(), 'shop-'))
const project = path.join(directory, 'shop')
execFileSync('git', ['init', '--quiet', project])
const lines = Array.from({ length: 40 }, (_, at) => `export const rule${at} = ${at}`)
writeFileSync(path.join(project, 'cart.js'), `${lines.join('\n')}\n`)
writeFileSync(path.join(project, 'package-lock.json'), '{}\n')
writeFileSync(
  path.join(project, 'server.js'),
  "require('http').createServer((_, r) => r.end('shop')).listen(3000)\n",
)

const sandbox = new Sandbox({ cwd: project, workspace: 'copy-on-write', isolation: 'workspace' })
const forks = await sandbox.fork(4, { name: 'agent' })
const server = await serve(sandbox, { port: 0, console: true, forks: true })
const browser = await chromium.launch({
  executablePath: execFileSync('which', ['chromium'], { encoding: 'utf8' }).trim(),
  args: ['--no-sandbox'],
})
try {
  const work = [
    'sed -i "s/rule3 = 3/rule3 = 9/; s/rule30 = 30/rule30 = 0/" cart.js',
    'sed -i "s/rule20 = 20/rule20 = 2/" cart.js; echo "{ }" >package-lock.json; echo >total.test.js',
    'sed -i "s/rule8 = 8/rule8 = 1/" cart.js; mkdir .vscode; echo "{}" >.vscode/tasks.json',
    'echo "export {}" >tax.js; echo "export {}" >price.js',
  ]
  for (const [at, fork] of forks.entries()) {
    const web = await fork.startProcess('exec node server.js')
    await web.waitForPort(3000)
    await fork.exec(work[at] ?? '')
  }
  const running = forks[1].exec('node --test; exec sleep 600').catch(() => {})
  const page = await browser.newPage({ viewport: { width: 1280, height: 600 } })
  await page.goto(`${server.url}/console`)
  const tile = (number) => page.locator(`article[data-fork=agent-${number}]`)
  for (const number of [1, 2, 3, 4]) await tile(number).locator('.ports a').waitFor()
  await tile(2).getByText('node --test').waitFor()
  await tile(1).getByText('Review').click()
  await tile(1).getByText('cart.js').click()
  await page.locator('dialog .diff').first().waitFor()
  await page.keyboard.press('Escape')
  await page.mouse.move(0, 0)
  await page.evaluate(() => document.activeElement?.blur())
  const { height } = await page.locator('#forks').boundingBox()
  await page.screenshot({
    path: path.join(target, 'forks.png'),
    clip: { x: 0, y: 0, width: 1280, height: Math.ceil(height) + 80 },
  })
  await forks[1].destroy()
  await running
} finally {
  await browser.close()
  await server.close()
  await Promise.all(forks.map((fork) => fork.destroy()))
  await sandbox.destroy()
  rmSync(directory, { recursive: true, force: true })
}
