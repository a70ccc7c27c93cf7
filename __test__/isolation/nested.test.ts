/** Isolation within isolation: the inner rules hold, although the outer filter refuses some system calls. */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Isolation } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'

const built = pathToFileURL(path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')).href

/** What an inner sandbox prints and refuses. */
const program = (isolation: Isolation) => `
  const { Sandbox } = await import(${JSON.stringify(built)})
  const sandbox = new Sandbox({ cwd: 'inner', isolation: ${JSON.stringify(isolation)} })
  const { all } = await sandbox.exec('echo in > in && cat in; echo out > ../out; pwd', { mergeOutput: true })
  console.log(JSON.stringify(all))
  await sandbox.destroy()`

describe('an isolated sandbox in an isolated sandbox', () => {
  for (const outer of ['workspace', { filesystem: { write: ['.', '/tmp'] } }] satisfies Isolation[])
    for (const inner of ['workspace', { filesystem: { write: ['.'] } }] satisfies Isolation[])
      it(`starts and is isolated, ${JSON.stringify(inner)} in ${JSON.stringify(outer)}`, () =>
        withSandbox(
          async ({ sandbox, directory }) => {
            mkdirSync(path.join(directory, 'inner'))
            const argv = [process.execPath, '--input-type=module', '-e', program(inner)]
            const { stdout, stderr } = await sandbox.exec(argv)
            expect([stderr, stdout]).toEqual(['', expect.stringMatching(/in.*(denied|Read-only).*\/inner/)])
          },
          { options: { isolation: outer } },
        ))
})
