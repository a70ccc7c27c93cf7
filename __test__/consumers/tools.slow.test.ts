/** nacre in the hands of test runners and bundlers. Executables of Bun are in __test__/deployment. */
import { mkdirSync, renameSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { bun, type Consumer, createConsumer } from '../helpers/consumer.js'

let consumer: Consumer

beforeAll(() => {
  consumer = createConsumer(['vitest', 'vite', '@types/node', 'rolldown'])
  consumer.write(
    'main.js',
    `import { Sandbox } from 'nacre'
    const sandbox = new Sandbox()
    console.log((await sandbox.exec('echo bundled')).stdout.trim())
    await sandbox.destroy()`,
  )
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
}, 60_000)

afterAll(() => consumer.remove())

describe('a test that uses nacre passes', () => {
  for (const pool of ['forks', 'threads']) {
    it(`in vitest, in its pool ${pool}`, async () => {
      const args = ['run', '--root', consumer.directory, '--pool', pool, 'nacre.test.js']
      expect(await consumer.runTool('vitest/vitest.mjs', ...args)).toMatch(/1 passed/)
    }, 60_000)
  }

  it('in bun test', async () => {
    await consumer.run(bun, 'test', 'nacre.bun.test.js')
  })
})

/** How each bundler is run, with nacre in the bundle and with nacre outside. */
const BUNDLERS: Record<string, (outside: boolean, output: string) => Promise<string>> = {
  'bun build for Node': (outside, output) =>
    consumer.run(bun, 'build', 'main.js', '--target=node', `--outfile=${output}`, ...external(outside)),
  rolldown: (outside, output) =>
    consumer.runTool(
      'rolldown/bin/cli.mjs',
      'main.js',
      '--platform=node',
      `--file=${output}`,
      ...external(outside),
    ),
}

function external(outside: boolean): string[] {
  return outside ? ['--external', 'nacre'] : []
}

describe('a bundle runs on Node', () => {
  for (const [name, bundle] of Object.entries(BUNDLERS)) {
    for (const outside of [true, false]) {
      it(`made by ${name}, with nacre ${outside ? 'outside' : 'inside'}`, async () => {
        const output = path.join(consumer.directory, 'out', `${name.replaceAll(' ', '-')}-${outside}.mjs`)
        mkdirSync(path.dirname(output), { recursive: true })
        await bundle(outside, output)
        expect(await consumer.run('node', output)).toBe('bundled\n')
      }, 60_000)
    }
  }

  it('and says what is missing where nacre is not installed', async () => {
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

it('a bundle of bun build for Bun finds the addon of the installed package', async () => {
  const output = path.join(consumer.directory, 'for-bun')
  await consumer.run(bun, 'build', 'main.js', '--target=bun', `--outdir=${output}`)
  expect(await consumer.run(bun, path.join(output, 'main.js'))).toBe('bundled\n')
})
