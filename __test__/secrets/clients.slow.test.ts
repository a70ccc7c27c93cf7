/** Programs that people use get a secret to its host, and never see it. Some are fetched for this test alone. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  realpathSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createApt, sources } from '../../scripts/apt.mjs'
import { installPython } from '../../scripts/packages/python.mjs'
import { withHosts } from '../helpers/namespaces.js'
import { makeCertificates } from '../helpers/origin.js'
import { outerAddress } from '../helpers/serving.js'
import { Programs, type Tier, tiers } from '../isolation/tiers.js'
import { type Client, clients } from './clients.js'

interface Outcome {
  all: string
  exitCode: number
  /** The schemes of the requests that reached the server with the value. */
  seen: string[]
  denials: unknown[]
}

const VALUE = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
const NAMES = ['api.test', 'registry.test', 'open.test', 'rules.test']
const GO = 'usr/lib/go-1.19'
/** Besides those that are fetched, by their Debian packages. */
const DEBIAN = {
  curl: 'curl',
  wget: 'wget',
  git: 'git',
  java: 'default-jdk-headless',
  ruby: 'ruby',
  php: 'php-cli',
  skopeo: 'skopeo',
  'lwp-request': 'libwww-perl',
}

let programs: Programs
/** Every user can read it. */
let place: string

const at = (name: string) => path.join(place, name)

beforeAll(async () => {
  const missing = Object.entries(DEBIAN).filter(([program]) => !has(program))
  if (missing.length > 0)
    throw new Error(
      `this test needs more programs: apt-get install ${missing.map(([, name]) => name).join(' ')}`,
    )
  programs = new Programs()
  copyFileSync(
    path.join(__dirname, 'clients-runner.mjs'),
    path.join(programs.directory, 'clients-runner.mjs'),
  )
  place = mkdtempSync('/var/tmp/nacre-fetched-')
  chmodSync(place, 0o755)
  cpSync(path.join(__dirname, 'tools'), place, { recursive: true })
  execFileSync('npm', ['ci', '--ignore-scripts', '--no-audit', '--no-fund'], { cwd: place, stdio: 'pipe' })
  mkdirSync(at('bin'))
  const modules = path.join(path.dirname(path.dirname(__dirname)), 'node_modules')
  copyFileSync(realpathSync(path.join(modules, '.bin/bun')), at('bin/bun'))
  installPython(at('python'), 'uv==0.13.9', 'requests==2.34.2', 'httpx[http2]==0.28.1', 'aiohttp==3.14.5')
  copyFileSync(at('python/bin/uv'), at('bin/uv'))
  createApt(at('apt'), sources('bookworm')).unpack(['gh', 'golang-1.19-go', 'golang-1.19-src'], at('root'))
  makeCertificates(place, NAMES)
  writeFileSync(at('hosts'), `127.0.0.1 localhost\n${outerAddress()} ${NAMES.join(' ')}\n`)
}, 600_000)

afterAll(() => {
  programs?.remove()
  if (place !== undefined) rmSync(place, { recursive: true, force: true })
})

const has = (program: string) => spawnSync('sh', ['-c', `command -v ${program}`]).status === 0

/** Runs clients in one session, each in a directory of its own. */
async function run(tier: Tier, chosen: Client[]): Promise<Record<string, Outcome>> {
  const own = ['bin', 'node_modules/.bin', `root/${GO}/bin`, 'root/usr/bin'].map(at)
  const env = {
    PATH: [...own, process.env.PATH].join(':'),
    GOROOT: at(`root/${GO}`),
    MODULES: at('package.json'),
    PYTHON: at('python/bin/python'),
    RUSTUP_HOME: process.env.RUSTUP_HOME ?? path.join(process.env.HOME ?? '', '.rustup'),
  }
  const [key, cert, authority] = ['origin.key', 'origin.pem', 'ca.pem'].map((name) =>
    readFileSync(at(name), 'utf8'),
  )
  const task = { key, cert, authority, value: VALUE, env, clients: chosen }
  return programs.run(tier, 'clients-runner.mjs', task, withHosts(at('hosts')))
}

describe('programs', () => {
  for (const tier of tiers.filter(({ uid, hasMounts }) => (uid === undefined) === hasMounts))
    it(`use a secret, and see its placeholder: ${tier.name}`, async () => {
      const lacks = tier.hasMounts ? [] : ['trust', 'route', ...(tier.uid === undefined ? [] : ['root'])]
      const chosen = clients.filter(({ needs = '' }) => !lacks.includes(needs))
      const { session, ...results } = await run(tier, chosen)
      const failed = chosen.filter(({ name, prints, isAnonymous = false }) => {
        const { all = '', seen = [] } = results[name] ?? {}
        return !prints.test(all) || all.includes(VALUE) || seen.length > 0 === isAnonymous
      })
      expect(failed.map(({ name }) => [name, results[name]])).toEqual([])
      // Its environment, and its files.
      expect(session?.all).toContain('TOKEN=ghp_')
      expect(session?.all).not.toContain(VALUE)
    }, 300_000)
})
