/** Isolation within isolation: the inner rules hold, although the outer filter refuses some system calls. */
import { constants, cpSync, mkdirSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Isolation } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'

const root = path.dirname(path.dirname(__dirname))

/** Makes nacre visible in the isolated directory: it may lie below /tmp, which is private there. */
function copyNacre(directory: string): string {
  const copy = path.join(directory, 'nacre')
  mkdirSync(copy)
  for (const part of ['package.json', 'dist', 'native'])
    cpSync(path.join(root, part), path.join(copy, part), {
      recursive: true,
      mode: constants.COPYFILE_FICLONE,
    })
  return pathToFileURL(path.join(copy, 'dist', 'index.js')).href
}

/** What an inner sandbox prints and refuses. */
const program = (nacre: string, isolation: Isolation) => `
  const { Sandbox } = await import(${JSON.stringify(nacre)})
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
            const argv = [process.execPath, '--input-type=module', '-e', program(copyNacre(directory), inner)]
            const { stdout, stderr } = await sandbox.exec(argv)
            expect([stderr, stdout]).toEqual(['', expect.stringMatching(/in.*(denied|Read-only).*\/inner/)])
          },
          { options: { isolation: outer } },
        ))
})
