/** nacre in the hands of test runners and bundlers. Executables of Bun are in __test__/deployment. */
import { mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bun, type Consumer, createConsumer } from '../helpers/consumer.js'

let consumer: Consumer

beforeAll(async () => {
  consumer = await createConsumer([
    ...['vitest', 'vite', '@types/node', 'rolldown', 'esbuild', 'rollup', 'webpack', '@rspack/core'],
    ...['@rollup/plugin-node-resolve', '@nacre/server', '@nacre/sandboxd'],
  ])
  consumer.write(
    'main.js',
    `import { Sandbox } from 'nacre'
    const sandbox = new Sandbox()
    console.log((await sandbox.exec('echo bundled')).stdout.trim())
    await sandbox.destroy()`,
  )
  consumer.write('token', 'a-token-for-the-tests')
  consumer.write(
    'nacre.test.js',
    `import { Sandbox } from 'nacre'
    import { expect, test } from 'vitest'
    test('a command runs', async () => {
      const sandbox = new Sandbox()
      expect((await sandbox.exec('echo in vitest')).stdout).toBe('in vitest\\n')
      await sandbox.destroy()
    })`,
  )
  consumer.write(
    'nacre.bun.test.js',
    `import { Sandbox } from 'nacre'
    import { expect, test } from 'bun:test'
    test('a command runs', async () => {
      const sandbox = new Sandbox()
      expect((await sandbox.exec('echo in bun')).stdout).toBe('in bun\\n')
      await sandbox.destroy()
    })`,
  )
}, 120_000)

afterAll(() => consumer.remove())

/** What nacre uses of Node, except for what the packages of the server use, too. */
const MODULES = ['fs', 'os', 'path', 'url', 'crypto', 'buffer', 'string_decoder', 'diagnostics_channel']

/** A suite that replaces modules of Node in the whole process. */
function mockingSuite(mock: string, from: string): string {
  return `import { expect, ${mock.split('.')[0]}, test } from '${from}'
    const broken = () => { throw new Error('mocked') }
    ${[...MODULES, 'http'].map((name) => mocking(mock, name)).join('\n')}
    test('a command and a job run', async () => {
      const { Sandbox } = await import('nacre')
      await expect(import('node:fs').then(({ existsSync }) => existsSync('/'))).rejects.toThrow('mocked')
      const sandbox = new Sandbox({ isolation: 'read-only' })
      expect((await sandbox.exec('echo mocked')).stdout).toBe('mocked\\n')
      const { jobId } = await sandbox.jobs.start({ command: 'exit 4' })
      expect((await sandbox.jobs.wait(jobId)).exitCode).toBe(4)
      await sandbox.destroy()
    })`
}

/** The same for a server that reads its token from a file, and a client. */
function mockingServerSuite(mock: string, from: string): string {
  return `import { expect, ${mock.split('.')[0]}, test } from '${from}'
    const broken = () => { throw new Error('mocked') }
    ${MODULES.map((name) => mocking(mock, name)).join('\n')}
    test('a server and a client run', async () => {
      const { Sandbox } = await import('nacre')
      const { serve } = await import('@nacre/server')
      const { SandboxClient } = await import('nacre/client')
      const sandbox = new Sandbox()
      const tokenFile = ${JSON.stringify(path.join(consumer.directory, 'token'))}
      const server = await serve(sandbox, { port: 0, tokenFile })
      const client = new SandboxClient({ url: server.url, token: 'a-token-for-the-tests' })
      expect((await client.exec('echo mocked')).stdout).toBe('mocked\\n')
      await client.destroy()
      await server.close()
      await sandbox.destroy()
    })`
}

function mocking(mock: string, name: string): string {
  return `${mock}('node:${name}', () => ({ default: { existsSync: broken }, existsSync: broken }))`
}

describe('a test that uses nacre passes', () => {
  for (const pool of ['forks', 'threads']) {
    it(`in vitest, in its pool ${pool}`, async () => {
      const args = ['run', '--root', consumer.directory, '--pool', pool, 'nacre.test.js']
      expect(await consumer.runTool('vitest', ...args)).toMatch(/1 passed/)
    }, 60_000)
  }

  it('in vitest with fake timers: imported, required, or loaded when they are fake already', async () => {
    const loads = {
      imported: `import { Sandbox } from 'nacre'`,
      required: `import { createRequire } from 'node:module'
        const { Sandbox } = createRequire(import.meta.url)('nacre')`,
      late: `vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
        const { Sandbox } = await import('nacre')`,
    }
    for (const [name, load] of Object.entries(loads))
      consumer.write(
        `fake/${name}.test.js`,
        `import { expect, test, vi } from 'vitest'
        ${load}
        test('a timeout, a wait and a service', async () => {
          vi.useFakeTimers()
          const sandbox = new Sandbox()
          await expect(sandbox.exec('sleep 60', { timeout: 20 })).rejects.toMatchObject({ code: 'COMMAND_TIMEOUT' })
          const process = await sandbox.startProcess('sleep 0.1; echo ready; sleep 60')
          await process.waitForLog('ready', { timeout: 30_000 })
          const command = 'mkdir made-${name} 2>/dev/null && exit 1; rmdir made-${name}'
          await sandbox.startService('sleep 60', { healthCheck: { command, interval: 10, timeout: 30_000 } })
          await sandbox.destroy()
        }, 50_000)`,
      )
    for (const inline of [false, true]) {
      const settings = inline ? `{ test: { server: { deps: { inline: ['nacre'] } } } }` : '{}'
      consumer.write('fake.config.js', `export default ${settings}`)
      const args = ['run', '--root', consumer.directory, '--config', 'fake.config.js', 'fake/']
      expect(await consumer.runTool('vitest', ...args)).toMatch(/Tests .*3 passed/)
    }
  }, 180_000)

  it('in bun test', async () => {
    await consumer.run(bun, 'test', 'nacre.bun.test.js')
  })

  it('in vitest, with modules of Node mocked and nacre in the bundle', async () => {
    consumer.write('mock.test.js', mockingSuite('vi.mock', 'vitest'))
    consumer.write(
      'vitest.config.js',
      `export default { test: { server: { deps: { inline: ['nacre', '@nacre/server'] } } } }`,
    )
    consumer.write('mock-server.test.js', mockingServerSuite('vi.mock', 'vitest'))
    const args = ['run', '--root', consumer.directory, 'mock.test.js', 'mock-server.test.js']
    expect(await consumer.runTool('vitest', ...args)).toMatch(/Tests .*2 passed/)
  }, 60_000)

  it('in bun test, with modules of Node mocked', async () => {
    consumer.write('mock.bun.test.js', mockingSuite('mock.module', 'bun:test'))
    await consumer.run(bun, 'test', 'mock.bun.test.js')
    consumer.write('mock-server.bun.test.js', mockingServerSuite('mock.module', 'bun:test'))
    await consumer.run(bun, 'test', 'mock-server.bun.test.js')
  })
})

/** How each bundler is run, with nacre in the bundle and with nacre outside. Each runs in the project's directory. */
const BUNDLERS: Record<string, (outside: boolean, output: string) => Promise<string>> = {
  'bun build for Node': (outside, output) =>
    consumer.run(bun, 'build', 'main.js', '--target=node', `--outfile=${output}`, ...external(outside)),
  rolldown: (outside, output) =>
    consumer.runTool('rolldown', 'main.js', '--platform=node', `--file=${output}`, ...external(outside)),
  esbuild: (outside, output) =>
    consumer.runTool(
      'esbuild',
      'main.js',
      '--bundle',
      '--platform=node',
      '--format=esm',
      `--outfile=${output}`,
      ...(outside ? ['--external:nacre'] : []),
    ),
  rollup: (outside, output) =>
    configured(
      `import { nodeResolve } from '@rollup/plugin-node-resolve'
      import { rollup } from 'rollup'
      const external = (id) => id.startsWith('node:') || (${outside} && id === 'nacre')
      const bundle = await rollup({ input: 'main.js', external, plugins: [nodeResolve({ preferBuiltins: true })] })
      await bundle.write({ file: ${JSON.stringify(output)}, format: 'esm', inlineDynamicImports: true })`,
    ),
  webpack: (outside, output) =>
    configured(
      `import webpack from 'webpack'
      ${packed('webpack', outside, output)}`,
    ),
  rspack: (outside, output) =>
    configured(
      `import { rspack } from '@rspack/core'
      ${packed('rspack', outside, output)}`,
    ),
  "Vite's server build": (outside, output) =>
    configured(
      `import path from 'node:path'
      import { build } from 'vite'
      const output = ${JSON.stringify(output)}
      await build({
        configFile: false,
        logLevel: 'error',
        ssr: ${outside ? '{}' : '{ noExternal: true }'},
        build: { ssr: 'main.js', outDir: path.dirname(output), emptyOutDir: false, target: 'node20',
          rollupOptions: { output: { entryFileNames: path.basename(output) } } },
      })`,
    ),
}

/** The program that runs webpack, or what takes its configuration. */
function packed(name: string, outside: boolean, output: string): string {
  return `import path from 'node:path'
    const output = ${JSON.stringify(output)}
    const compiler = ${name}({
      mode: 'production',
      target: 'node20',
      entry: './main.js',
      experiments: { outputModule: true },
      externals: ${outside ? "{ nacre: 'module nacre' }" : '{}'},
      output: { path: path.dirname(output), filename: path.basename(output), module: true, library: { type: 'module' } },
    })
    const stats = await new Promise((resolve, reject) => compiler.run((error, stats) => error ? reject(error) : resolve(stats)))
    if (stats.hasErrors()) throw new Error(stats.toString())`
}

let configurations = 0

/** Runs a bundler that is configured by a program. */
function configured(program: string): Promise<string> {
  const name = `build-${configurations++}.mjs`
  consumer.write(name, program)
  return consumer.run('node', name)
}

function external(outside: boolean): string[] {
  return outside ? ['--external', 'nacre'] : []
}

describe('a bundle runs on Node', () => {
  for (const [name, bundle] of Object.entries(BUNDLERS)) {
    for (const outside of [true, false]) {
      it(`made by ${name}, with nacre ${outside ? 'outside' : 'inside'}`, async () => {
        const output = path.join(consumer.directory, 'out', `${name.replaceAll(/\W/g, '-')}-${outside}.mjs`)
        mkdirSync(path.dirname(output), { recursive: true })
        await bundle(outside, output)
        expect(await consumer.run('node', output)).toBe('bundled\n')
      }, 60_000)
    }
  }

  it('and names what is missing where nacre is not installed', async () => {
    const output = path.join(consumer.directory, 'alone', 'main.mjs')
    mkdirSync(path.dirname(output))
    await BUNDLERS.rolldown?.(false, output)
    const modules = path.join(consumer.directory, 'node_modules')
    renameSync(modules, `${modules}.away`)
    try {
      await expect(consumer.run('node', output)).rejects.toThrow(/ADDON_MISSING/)
    } finally {
      renameSync(`${modules}.away`, modules)
    }
  }, 60_000)
})

it('a bundle with a server says what sandboxd needs', async () => {
  consumer.write(
    'sandboxd.js',
    `import { Sandbox } from 'nacre'
    import { serve } from '@nacre/server'
    const sandbox = new Sandbox()
    await serve(sandbox, { port: 0, sandboxd: { grpcPort: 0, restPort: 0, root: '.' } }).catch(({ message }) => console.log(message))
    await sandbox.destroy()`,
  )
  const output = path.join(consumer.directory, 'out/sandboxd.mjs')
  await consumer.runTool('rolldown', 'sandboxd.js', '--platform=node', `--file=${output}`)
  expect(await consumer.run('node', output)).toContain('keep nacre and @nacre/server out of the bundle')
}, 60_000)

it('a bundle of bun build for Bun finds the addon of the installed package', async () => {
  const output = path.join(consumer.directory, 'for-bun')
  await consumer.run(bun, 'build', 'main.js', '--target=bun', `--outdir=${output}`)
  expect(await consumer.run(bun, path.join(output, 'main.js'))).toBe('bundled\n')
})
