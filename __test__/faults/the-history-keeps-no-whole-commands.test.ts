import { execFileSync } from 'node:child_process'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'

const built = pathToFileURL(path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')).href

const COMMANDS = 60
const BYTES = 1_000_000

/** Bytes of the heap that remain after commands with much text. */
const program = `
  const { Sandbox } = await import(${JSON.stringify(built)})
  const sandbox = new Sandbox()
  const used = () => (gc(), gc(), process.memoryUsage().heapUsed)
  await sandbox.exec('true')
  const before = used()
  for (let n = 0; n < ${COMMANDS}; n++) await sandbox.exec(': ' + String.fromCharCode(97 + n % 26).repeat(${BYTES}))
  const history = await (await sandbox.getSession('default')).history()
  console.log(JSON.stringify([used() - before, history.length, history[0].command.length]))
  await sandbox.destroy()`

it.skipIf(process.versions.bun !== undefined)(
  'the beginning of a command in the history does not keep the whole command in memory',
  () => {
    const flags = ['--expose-gc', '--input-type=module', '-e', program]
    const printed = execFileSync(process.execPath, flags, { encoding: 'utf8' })
    const [bytes, count, length] = JSON.parse(printed)
    expect([count, length]).toEqual([COMMANDS + 1, expect.any(Number)])
    // All of them would be twenty times as much.
    expect(bytes).toBeLessThan((COMMANDS * BYTES) / 20)
  },
)
