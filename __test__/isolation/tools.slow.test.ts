/** With a preset, also the daily tools that this repository does not need work. They are fetched for this test alone. */
import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, cpSync, mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, it } from 'vitest'
import { createApt, sources } from '../../scripts/apt.mjs'
import { installPython } from '../../scripts/packages/python.mjs'
import { CHROMIUM } from '../helpers/chromium.js'
import { type Registry, startRegistry } from './registry.js'
import { Programs, tiers } from './tiers.js'
import { expectToWork, toolsWith } from './tools.js'

const modules = path.join(path.dirname(path.dirname(__dirname)), 'node_modules')
const GO = 'usr/lib/go-1.19'

let registry: Registry
let programs: Programs
/** Every user can read it. */
let place: string

beforeAll(async () => {
  registry = await startRegistry()
  programs = new Programs('tools-runner.mjs')
  place = mkdtempSync('/var/tmp/nacre-fetched-')
  chmodSync(place, 0o755)
  cpSync(path.join(__dirname, 'tools'), place, { recursive: true })
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: place, stdio: 'pipe' })
  cpSync(path.join(modules, 'playwright-core'), path.join(place, 'node_modules/playwright-core'), {
    recursive: true,
  })
  mkdirSync(path.join(place, 'bin'))
  copyFileSync(realpathSync(path.join(modules, '.bin/bun')), path.join(place, 'bin/bun'))
  installPython(path.join(place, 'python'), 'uv==0.13.9')
  const apt = createApt(path.join(place, 'apt'), sources('bookworm'))
  apt.unpack(['gh', 'golang-1.19-go', 'golang-1.19-src'], path.join(place, 'root'))
}, 600_000)

afterAll(async () => {
  programs?.remove()
  if (place !== undefined) rmSync(place, { recursive: true, force: true })
  await registry?.close()
})

describe('daily tools', () => {
  for (const tier of tiers) {
    it(`install and build a project: ${tier.name}`, async () => {
      const at = (name: string) => path.join(place, name)
      const own = ['bin', 'node_modules/.bin', 'python/bin', `root/${GO}/bin`, 'root/usr/bin'].map(at)
      const env = {
        PATH: [...own, '/usr/local/bin', '/usr/bin', '/bin'].join(':'),
        GOROOT: at(`root/${GO}`),
        NODE_PATH: at('node_modules'),
        CHROMIUM,
      }
      // cargo is in the home directory of root. Without a network namespace, Yarn needs the proxy in an option of its own.
      const without = tier.hasMounts ? ['cargo'] : ['cargo', 'yarn']
      const tools = toolsWith(registry.url).filter(({ name }) => !without.includes(name))
      await expectToWork(programs, tier, { tools, allow: [registry.target], env })
    }, 300_000)
  }
})
