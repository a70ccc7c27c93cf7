/**
 * One executable of `bun build --compile`: it is built where nacre is installed, and runs where nothing of that is.
 */
import { execFile } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))
const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-compiled-'))
const app = path.join(base, 'app')
const binary = path.join(base, 'binary')
/** Where the executable may write. */
const temporary = path.join(base, 'tmp')
const unpacked = path.join(temporary, `nacre-${process.getuid?.()}-bin`)

const program = `
  import { Sandbox } from 'nacre'
  import { Session } from 'nacre/container'

  const sandbox = new Sandbox({ jobsRoot: process.env.TMPDIR + '/jobs' })
  await sandbox.exec('x=1; cd /')
  const { stdout } = await sandbox.exec('echo $x $PWD')
  const terminal = await sandbox.startProcess('tty >/dev/null && stty size', { pty: { cols: 91, rows: 17 } })
  await terminal.wait()
  const { jobId } = await sandbox.jobs.start({ command: 'exit 4' })
  const { exitCode } = await sandbox.jobs.wait(jobId)
  await sandbox.jobs.remove(jobId)
  const session = new Session({ id: 's' })
  await session.initialize()
  let streamed = ''
  for await (const event of session.execStream('echo streamed')) if (event.type === 'stdout') streamed += event.data
  await session.destroy()
  const size = (await terminal.getLogs()).stdout.trim()
  await sandbox.destroy()
  console.log(JSON.stringify({ stdout, size, exitCode, streamed }))
`
const expected = { stdout: '1 /\n', size: '17 91', exitCode: 4, streamed: 'streamed\n' }

/** As in a bare image: no directory of nacre's, no variable of the test's. */
async function runBinary(): Promise<unknown> {
  const env = { PATH: process.env.PATH, HOME: '/', TMPDIR: temporary }
  const { stdout, stderr } = await run(binary, { cwd: '/', env })
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

beforeAll(async () => {
  const installed = path.join(app, 'node_modules/nacre')
  mkdirSync(installed, { recursive: true })
  mkdirSync(temporary)
  for (const name of ['package.json', 'dist'])
    cpSync(path.join(root, name), path.join(installed, name), { recursive: true })
  // The package has the release build; which one it is does not matter here.
  const build = process.env.NACRE_NATIVE === 'debug' ? 'debug' : 'release'
  cpSync(path.join(root, 'native', build), path.join(installed, 'native/release'), { recursive: true })
  writeFileSync(path.join(app, 'main.js'), program)
  const bun = path.join(root, 'node_modules/.bin/bun')
  await run(bun, ['build', '--compile', '--minify', 'main.js', '--outfile', binary], { cwd: app })
  rmSync(app, { recursive: true })
}, 120_000)

afterAll(() => rmSync(base, { recursive: true, force: true }))

describe('a compiled executable', () => {
  it('runs where nothing of nacre is installed', async () => {
    expect(existsSync(app)).toBe(false)
    expect(await runBinary()).toEqual(expected)
  }, 60_000)

  it('leaves its supervisor, for the next one, and nothing else that is of use to anybody', () => {
    const names = readdirSync(unpacked)
    expect(names).toEqual([expect.stringMatching(/^nacre-supervisor-[0-9a-f]{16}$/)])
    expect(statSync(path.join(unpacked, names[0] ?? '')).mode & 0o777).toBe(0o755)
    expect(statSync(unpacked).mode & 0o777).toBe(0o755)
  })

  it('uses it again, but not when it has been changed', async () => {
    const file = path.join(unpacked, readdirSync(unpacked)[0] ?? '')
    const { ino } = statSync(file)
    expect(await runBinary()).toEqual(expected)
    expect(statSync(file).ino).toBe(ino)
    // The addon has been put there by Bun, under the hash of its own.
    const bunsOwn = /^\.bun-.*\.node$/
    const names = readdirSync(temporary).filter((name) => !bunsOwn.test(name))
    expect(names.sort()).toEqual(['jobs', path.basename(unpacked)])
    expect(readdirSync(temporary).length).toBeLessThanOrEqual(names.length + 1)
    writeFileSync(file, '#!/bin/sh\nexit 1\n')
    expect(await runBinary()).toEqual(expected)
    expect(statSync(file).size).toBeGreaterThan(10_000)
    expect(readdirSync(unpacked)).toHaveLength(1)
  }, 60_000)

  it('does not use a directory that others can write to, or that is a link', async () => {
    chmodSync(unpacked, 0o777)
    await expect(runBinary()).rejects.toThrow(/STATE_DIR_UNAVAILABLE|others can write to it/)
    rmSync(unpacked, { recursive: true })
    symlinkSync(base, unpacked)
    await expect(runBinary()).rejects.toThrow(/STATE_DIR_UNAVAILABLE|no directory of this user/)
  }, 60_000)
})
