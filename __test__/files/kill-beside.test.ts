/** File calls go on while processes are killed. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'

it.each([...modes, ...plain])('a kill of a process leaves a write alone: $name', (mode) =>
  withSandboxIn(mode, async ({ sandbox, directory }) => {
    const process = await sandbox.startProcess('sleep 600')
    let go = () => {}
    const isKilled = new Promise<void>((resolve) => {
      go = resolve
    })
    async function* pieces() {
      yield 'before '
      await isKilled
      yield 'after'
    }
    const written = sandbox.files.write('file', pieces())
    // The helper of files has been started.
    await sandbox.files.write('other', '')
    await process.kill()
    go()
    await written
    expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('before after')
  }),
)
