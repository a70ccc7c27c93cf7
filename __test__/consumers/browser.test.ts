/**
 * The packed `nacre`, installed as on macOS: `nacre/client` runs in Chromium, from the bundle of every bundler, with
 * commands, streams, files and a terminal.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, rmSync } from 'node:fs'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { type Serving, serve } from '@nacre/server'
import { nodeResolve } from '@rollup/plugin-node-resolve'
import { rspack } from '@rspack/core'
import { build as esbuild } from 'esbuild'
import { Sandbox } from 'nacre'
import type { Browser } from 'playwright-core'
import { build as rolldown } from 'rolldown'
import { rollup } from 'rollup'
import { build as vite } from 'vite'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import webpack from 'webpack'
import { pack } from '../../scripts/packages/stage.mjs'
import { launchChromium } from '../helpers/chromium.js'
import { bun, type Consumer, createConsumer } from '../helpers/consumer.js'
import { temporary } from '../helpers/temporary.js'
import { until } from '../helpers/until.js'

let consumer: Consumer
let browser: Browser
let pages: Server
let origin: string
let sandbox: Sandbox
let serving: Serving
/** The requests that the server has answered, as its log shows them. */
const requests: string[] = []

beforeAll(async () => {
  browser = await launchChromium()
  consumer = await createConsumer()
  installOnMac()
  consumer.write(
    'main.js',
    `import { OptionError, SandboxClient, SandboxError } from 'nacre/client'
    const client = new SandboxClient({ url: new URL(location.href).searchParams.get('api') })
    const { stdout } = await client.exec('cat', { input: 'ä' })
    const lines = []
    for await (const line of client.execStream('seq 3').lines()) lines.push(line)
    const failed = await client.exec('exit 3', { check: true }).catch((error) => error)
    const wrong = await client.exec('true', { timeout: -1 }).catch((error) => error)
    const bytes = new Uint8Array([0xff, 0, 0x0a])
    await client.files.write('data', bytes)
    const file = await client.files.read('data', { encoding: 'buffer' })
    const part = []
    for await (const piece of client.files.readStream('data', { start: 1 })) part.push(...piece)
    const terminal = await client.startProcess('read line; echo "<$line>"', { pty: true })
    await terminal.resize(100, 30)
    await terminal.write('typed\\r')
    await terminal.waitForLog('<typed>')
    const { exitCode } = await terminal.waitForExit()
    await client.destroy()
    globalThis.answer = [
      ...[stdout, ...lines, failed instanceof SandboxError, failed.code, wrong instanceof OptionError],
      ...[...file, ...part, exitCode],
    ].join()`,
  )
  pages = createServer(({ url = '' }, reply) => {
    const { pathname } = new URL(url, 'http://page')
    const script = pathname.endsWith('.js')
    reply.setHeader('content-type', script ? 'text/javascript' : 'text/html')
    reply.end(script ? readFileSync(path.join(consumer.directory, pathname)) : pageOf(pathname))
  })
  await new Promise<void>((resolve) => pages.listen(0, '127.0.0.1', resolve))
  origin = `http://127.0.0.1:${(pages.address() as AddressInfo).port}`
  sandbox = new Sandbox({ cwd: consumer.directory })
  const logger = { debug() {}, info: (line: string) => requests.push(line), warn() {}, error() {} }
  serving = await serve(sandbox, { port: 0, allowedOrigins: [origin], logger })
}, 120_000)

afterAll(async () => {
  await browser?.close()
  await serving?.close()
  await sandbox?.destroy()
  pages?.close()
  consumer?.remove()
})

/** Replaces the installed packages by those that npm installs from the tarball on macOS. */
function installOnMac(): void {
  const work = temporary('nacre-packed-')
  const { file } = pack(path.join(consumer.directory, 'node_modules/nacre'), work)
  rmSync(path.join(consumer.directory, 'node_modules'), { recursive: true })
  const args = ['install', '--os=darwin', '--cpu=arm64', '--offline', '--no-audit', '--no-fund', file]
  execFileSync('npm', args, { cwd: consumer.directory, stdio: ['ignore', 'ignore', 'pipe'] })
}

/** A page that runs a script. The script for pages without a bundler imports `nacre/client` by an import map. */
function pageOf(script: string): string {
  const imports = { 'nacre/client': '/node_modules/nacre/dist/client.browser.js' }
  return `<!doctype html><link rel="icon" href="data:,">
    <script type="importmap">${JSON.stringify({ imports })}</script>
    <script type="module" src="${script}.js"></script>`
}

/** What the program of a page computes. Throws the errors of the page. */
async function answerOf(script: string): Promise<unknown> {
  const page = await (await browser.newContext()).newPage()
  const problems: string[] = []
  page.on('pageerror', ({ message }) => problems.push(message))
  page.on('requestfailed', (request) => {
    const { errorText } = request.failure() ?? {}
    // Chromium often reports that for a short body that a reader has read to its end.
    if (errorText !== 'net::ERR_ABORTED') problems.push(`${request.url()}: ${errorText}`)
  })
  try {
    await page.goto(`${origin}/${script}?api=${encodeURIComponent(serving.url)}`, { waitUntil: 'commit' })
    return await until(
      () => {
        if (problems.length > 0) throw new Error(problems.join('\n'))
        return page.evaluate('globalThis.answer')
      },
      () => 'the page computes nothing',
      15_000,
    )
  } finally {
    await page.context().close()
  }
}

const EXPECTED = 'ä,1,2,3,true,COMMAND_FAILED,true,255,0,10,0,10,0'

/** Each writes a bundle of main.js for browsers, in its default configuration, and fails on a warning. */
const BUNDLERS: Record<string, (directory: string, output: string) => Promise<unknown>> = {
  esbuild: async (directory, output) => {
    const entryPoints = [path.join(directory, 'main.js')]
    const { warnings } = await esbuild({ entryPoints, outfile: output, bundle: true, format: 'esm' })
    expect(warnings).toEqual([])
  },
  vite: (directory, output) =>
    vite({
      root: directory,
      configFile: false,
      logLevel: 'error',
      build: {
        outDir: path.dirname(output),
        emptyOutDir: false,
        target: 'esnext',
        rollupOptions: {
          input: path.join(directory, 'main.js'),
          output: { entryFileNames: path.basename(output) },
          onwarn: fail,
        },
      },
    }),
  rollup: async (directory, output) => {
    const plugins = [nodeResolve({ browser: true })]
    const bundle = await rollup({ input: path.join(directory, 'main.js'), plugins, onwarn: fail })
    await bundle.write({ file: output, format: 'esm' })
  },
  rolldown: (directory, output) =>
    rolldown({ input: path.join(directory, 'main.js'), onwarn: fail, output: { file: output } }),
  webpack: (directory, output) => compiled(webpack(packed(directory, output))),
  rspack: (directory, output) => compiled(rspack(packed(directory, output))),
  'bun build': (_, output) =>
    consumer.run(bun, 'build', 'main.js', '--target=browser', `--outfile=${output}`),
}

function fail(warning: { message: string }): never {
  throw new Error(warning.message)
}

function packed(directory: string, output: string) {
  return {
    mode: 'production',
    target: 'web',
    context: directory,
    entry: './main.js',
    performance: { hints: false },
    output: { path: path.dirname(output), filename: path.basename(output) },
  } as const
}

interface Compiler {
  run(
    done: (error: Error | null, stats?: { toJson(): { errors?: object[]; warnings?: object[] } }) => void,
  ): void
}

async function compiled(compiler: Compiler | null): Promise<void> {
  const { errors, warnings } = await new Promise<{ errors?: object[]; warnings?: object[] }>(
    (resolve, reject) => compiler?.run((error, stats) => (stats ? resolve(stats.toJson()) : reject(error))),
  )
  expect([errors, warnings]).toEqual([[], []])
}

describe('nacre, installed from the tarball on macOS,', () => {
  it('has a client that runs in Chromium without a bundler', async () => {
    expect(await answerOf('main')).toBe(EXPECTED)
    // Keys went over the WebSocket.
    await until(
      () => requests.some((line) => /\/terminal 101 /.test(line)) || undefined,
      () => requests.join('\n'),
    )
  })

  for (const [name, bundle] of Object.entries(BUNDLERS)) {
    it(`has a client that runs in Chromium when bundled by ${name}`, async () => {
      const script = `out/${name.replace(' ', '-')}`
      await bundle(consumer.directory, path.join(consumer.directory, `${script}.js`))
      expect(await answerOf(script)).toBe(EXPECTED)
    }, 60_000)
  }
})
