/** nacre in a route of Next.js, whose server build bundles it. Next.js is installed for this test alone: it is large. */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { rm } from 'node:fs/promises'
import { createServer } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { stageMain } from '../../scripts/packages/stage.mjs'
import { hostTarget, packageName } from '../../scripts/packages/targets.mjs'
import { putPlatformPackage } from '../helpers/consumer.js'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'

const run = promisify(execFile)
const { NACRE_NATIVE, NODE_OPTIONS, NODE_ENV, VITEST, ...inherited } = process.env
const env: NodeJS.ProcessEnv = { ...inherited, NEXT_TELEMETRY_DISABLED: '1', NODE_ENV: 'production' }

let directory: string

const ROUTE = `
  import { Sandbox } from 'nacre'
  export const dynamic = 'force-dynamic'
  export async function GET() {
    const sandbox = new Sandbox()
    try {
      return new Response((await sandbox.exec('echo bundled')).stdout)
    } catch (error) {
      return new Response(error.code, { status: 500 })
    }
  }
`

beforeAll(async () => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-next-'))
  cpSync(path.join(__dirname, 'next'), directory, { recursive: true })
  const args = ['install', '--no-save', '--ignore-scripts', '--no-audit', '--no-fund']
  await run('npm', args, { cwd: directory, env: { ...env, NODE_ENV: 'development' } })
  await stageMain(path.dirname(path.dirname(__dirname)), path.join(directory, 'node_modules/nacre'))
  putPlatformPackage(path.join(directory, 'node_modules', packageName(hostTarget())))
  mkdirSync(path.join(directory, 'app/run'), { recursive: true })
  writeFileSync(path.join(directory, 'app/run/route.js'), ROUTE)
  const layout = 'export default ({ children }) => <html><body>{children}</body></html>'
  writeFileSync(path.join(directory, 'app/layout.js'), layout)
}, 300_000)

afterAll(() => rm(directory, { recursive: true, force: true }), 60_000)

/** Builds with a configuration. */
async function build(configuration: string): Promise<void> {
  writeFileSync(path.join(directory, 'next.config.mjs'), `export default ${configuration}`)
  rmSync(path.join(directory, '.next'), { recursive: true, force: true })
  await run('node', ['node_modules/next/dist/bin/next', 'build'], { cwd: directory, env })
}

/** What the route of a server answers. The server listens on the port that its environment names. */
async function answerOf(cwd: string, ...args: string[]): Promise<string> {
  const port = await freePort()
  const settings = { ...env, PORT: String(port), HOSTNAME: '127.0.0.1' }
  const server = spawn('node', args, { cwd, env: settings, stdio: ['ignore', 'ignore', 'pipe'] })
  let complaint = ''
  server.stderr.on('data', (text) => {
    complaint += text
  })
  try {
    const ask = () => fetch(`http://127.0.0.1:${port}/run`).catch(() => undefined)
    return (await (await until(ask, () => `no answer: ${complaint}`, 30_000)).text()).trim()
  } finally {
    server.kill('SIGKILL')
    await once(server, 'close')
  }
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  return typeof address === 'object' && address !== null ? address.port : 0
}

describe('a route of Next.js runs commands', () => {
  for (const [name, configuration] of [
    ['with nacre in the bundle', '{}'],
    ['with nacre outside', "{ serverExternalPackages: ['nacre'] }"],
  ] as const) {
    it(name, async () => {
      await build(configuration)
      expect(await answerOf(directory, 'node_modules/next/dist/bin/next', 'start')).toBe('bundled')
    }, 120_000)
  }
})

describe('a standalone server of Next.js', () => {
  async function standalone(configuration: string): Promise<string> {
    await build(configuration)
    // Where the project's own node_modules cannot be found.
    const moved = temporary('nacre-standalone-')
    cpSync(path.join(directory, '.next/standalone'), moved, { recursive: true, verbatimSymlinks: true })
    return await answerOf(moved, 'server.js')
  }

  it('runs commands when the platform package is traced', async () => {
    const traced = "outputFileTracingIncludes: { '/*': ['./node_modules/@nacre/**'] }"
    expect(await standalone(`{ output: 'standalone', ${traced} }`)).toBe('bundled')
  }, 120_000)

  it('names what is missing when it is not', async () => {
    expect(await standalone("{ output: 'standalone' }")).toBe('ADDON_MISSING')
  }, 120_000)
})
