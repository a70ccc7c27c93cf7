/** nacre in tests of Jest, with `require` and with `import`. Jest is installed for this test alone: it is large. */
import { execFile } from 'node:child_process'
import { cpSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Consumer, createConsumer } from '../helpers/consumer.js'

let consumer: Consumer

beforeAll(async () => {
  consumer = await createConsumer(['@nacre/server', '@nacre/tools'])
  const { directory } = consumer
  cpSync(path.join(__dirname, 'jest'), path.join(directory, 'jest'), { recursive: true })
  const args = ['ci', '--ignore-scripts', '--no-audit', '--no-fund']
  await promisify(execFile)('npm', args, { cwd: path.join(directory, 'jest') })
}, 300_000)

afterAll(() => consumer?.remove())

/** Runs a suite below the project with nacre. Returns what Jest prints. */
async function jest(name: string, text: string, options: string[] = [], nodeOptions = ''): Promise<string> {
  consumer.write(`jest/${name}`, text)
  const program = path.join(consumer.directory, 'jest/node_modules/jest/bin/jest.js')
  const args = ['--rootDir', path.join(consumer.directory, 'jest'), name, '--forceExit', ...options]
  const command = [process.execPath, ...nodeOptions.split(' ').filter(Boolean), program, ...args]
  // It reports on standard error.
  const quoted = command.map((word) => `'${word}'`).join(' ')
  return consumer.run('sh', '-c', `${quoted} 2>&1`)
}

/** Uses every entry point that programs on a server have. */
const USE = `
  const sandbox = new Sandbox()
  const session = new Session({ id: 'a' })
  const serving = await serve(sandbox, { port: 0 })
  const client = new SandboxClient({ url: serving.url })
  const tools = createTools(sandbox)
  expect((await client.exec('echo over HTTP')).stdout).toBe('over HTTP\\n')
  await session.initialize()
  expect((await session.exec('echo in a container')).stdout).toBe('in a container')
  expect(() => new Sandbox({ timout: 1 })).toThrow(OptionError)
  await expect(sandbox.exec('exit 3', { check: true })).rejects.toThrow(SandboxError)
  await expect(sandbox.exec('exit 3', { check: true })).rejects.toMatchObject({ code: 'COMMAND_FAILED' })
  expect(await sandbox.exec('cat', { input: new Uint8Array([65, 10]), lines: true })).toMatchObject({ stdout: ['A'], exitCode: 0 })
  await tools.close()
  await client.destroy()
  await serving.close()
  await session.destroy()
  await sandbox.destroy()
`

const REQUIRE = `
  const { OptionError, Sandbox, SandboxError } = require('nacre')
  const { SandboxClient } = require('nacre/client')
  const { Session } = require('nacre/container')
  const { serve } = require('@nacre/server')
  const { createTools } = require('@nacre/tools')
`

describe('in Jest', () => {
  it('require loads nacre and its companions', async () => {
    const suite = `${REQUIRE} test('they work', async () => {${USE}})`
    expect(await jest('required.test.js', suite)).toMatch(/Tests: +1 passed/)
  }, 60_000)

  it('require loads nacre once, also for suites that reset their modules', async () => {
    const suite = `
      test('it is the same', () => {
        const { Sandbox } = require('nacre')
        jest.resetModules()
        expect(require('nacre').Sandbox).toBe(Sandbox)
      })`
    expect(await jest('reset.test.js', suite, ['--resetModules'])).toMatch(/Tests: +1 passed/)
  }, 60_000)

  it('fake timers do not stop what nacre waits for', async () => {
    const suite = `
      const { Sandbox } = require('nacre')
      for (const options of [{}, { legacyFakeTimers: true }])
        test('a timeout, a wait and a service', async () => {
          jest.useFakeTimers(options)
          const sandbox = new Sandbox()
          await expect(sandbox.exec('sleep 60', { timeout: 20 })).rejects.toMatchObject({ code: 'COMMAND_TIMEOUT' })
          const process = await sandbox.startProcess('sleep 0.1; echo ready; sleep 60')
          await process.waitForLog('ready', { timeout: 10_000 })
          await sandbox.destroy()
          jest.useRealTimers()
        })`
    expect(await jest('timers.test.js', suite)).toMatch(/Tests: +2 passed/)
  }, 60_000)

  it('import loads nacre where Jest supports ES modules', async () => {
    const suite = `
      import { OptionError, Sandbox, SandboxError } from 'nacre'
      import { SandboxClient } from 'nacre/client'
      import { Session } from 'nacre/container'
      import { serve } from '@nacre/server'
      import { createTools } from '@nacre/tools'
      test('they work', async () => {${USE}})`
    const output = await jest(
      'imported.test.mjs',
      suite,
      ['--testMatch', '**/*.mjs'],
      '--experimental-vm-modules',
    )
    expect(output).toMatch(/Tests: +1 passed/)
  }, 60_000)
})
