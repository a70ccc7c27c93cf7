/** The installed package as programs load it: by import and by require, on Node and on Bun, and from the command line. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bun, type Consumer, createConsumer } from '../helpers/consumer.js'

let consumer: Consumer

/** Uses every entry point. */
const USE = `
  const sandbox = new Sandbox()
  const session = new Session({ id: 'a' })
  const serving = await serve(sandbox, { port: 0 })
  const client = new SandboxClient({ url: serving.url })
  const { stdout } = await client.exec('echo over HTTP')
  await session.initialize()
  const inContainer = await session.exec('echo in a container')
  const error = await sandbox.exec('exit 3', { check: true }).catch((error) => error)
  await client.destroy()
  await serving.close()
  await session.destroy()
  await sandbox.destroy()
  console.log([stdout.trim(), inContainer.stdout, error instanceof SandboxError, error.code, OptionError.name].join())
`
const EXPECTED = 'over HTTP,in a container,true,COMMAND_FAILED,OptionError\n'

beforeAll(async () => {
  consumer = await createConsumer(['@nacre/server'])
  consumer.write(
    'imports.mjs',
    `import { OptionError, Sandbox, SandboxError } from 'nacre'
    import { SandboxClient } from 'nacre/client'
    import { Session } from 'nacre/container'
    import { serve } from '@nacre/server'
    ${USE}`,
  )
  consumer.write(
    'requires.cjs',
    `const { OptionError, Sandbox, SandboxError } = require('nacre')
    const { SandboxClient } = require('nacre/client')
    const { Session } = require('nacre/container')
    const { serve } = require('@nacre/server')
    void (async () => {${USE}})()`,
  )
}, 120_000)

afterAll(() => consumer.remove())

describe('an installed nacre', () => {
  for (const [name, program] of [
    ['Node', 'node'],
    ['Bun', bun],
  ] as const) {
    for (const [way, file] of [
      ['import', 'imports.mjs'],
      ['require', 'requires.cjs'],
    ] as const) {
      it(`works on ${name} with ${way}`, async () => {
        expect(await consumer.run(program, file)).toBe(EXPECTED)
      })
    }
  }

  it('loads no addon until the first call', async () => {
    const program = `import { Sandbox } from 'nacre'; new Sandbox()
      console.log(process.report.getReport().sharedObjects.filter((name) => name.endsWith('.node')).length)`
    expect(await consumer.run('node', '--input-type=module', '-e', program)).toBe('0\n')
  })

  it('has the command line of its package.json', async () => {
    const installed = path.join(consumer.directory, 'node_modules/nacre')
    const { bin } = JSON.parse(readFileSync(path.join(installed, 'package.json'), 'utf8'))
    expect(await consumer.run(path.join(installed, bin.nacre), 'exec', 'echo ran')).toBe('ran\n')
  })
})
