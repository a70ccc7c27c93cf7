/**
 * One executable of `bun build --compile`: it is built where nacre is installed, and runs where nothing of that is.
 */
import { chmodSync, existsSync, readdirSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { buildExecutable, type Executable } from '../helpers/compiled.js'

const program = `
  import { Sandbox } from 'nacre'
  import { Session } from 'nacre/container'

  const sandbox = new Sandbox({ jobsRoot: process.env.TMPDIR + '/jobs' })
  await sandbox.exec('x=1; cd /')
  const { stdout } = await sandbox.exec('echo $x $PWD')
  const terminal = await sandbox.startProcess('tty >/dev/null && stty size', { pty: { cols: 91, rows: 17 } })
  await terminal.waitForExit()
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

let executable: Executable
let unpacked: string

async function runExecutable(): Promise<unknown> {
  const { stdout, stderr } = await executable.run()
  expect(stderr).toBe('')
  return JSON.parse(stdout)
}

beforeAll(async () => {
  executable = await buildExecutable(program)
  unpacked = path.join(executable.temporary, `nacre-${process.getuid?.()}-bin`)
}, 120_000)

afterAll(() => executable.remove())

describe('a compiled executable', () => {
  it('runs where nothing of nacre is installed', async () => {
    expect(existsSync(executable.builtIn)).toBe(false)
    expect(await runExecutable()).toEqual(expected)
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
    expect(await runExecutable()).toEqual(expected)
    expect(statSync(file).ino).toBe(ino)
    // The addon has been put there by Bun, under the hash of its own.
    const bunsOwn = /^\.bun-.*\.node$/
    const names = readdirSync(executable.temporary).filter((name) => !bunsOwn.test(name))
    expect(names.sort()).toEqual(['jobs', path.basename(unpacked)])
    expect(readdirSync(executable.temporary).length).toBeLessThanOrEqual(names.length + 1)
    writeFileSync(file, '#!/bin/sh\nexit 1\n')
    expect(await runExecutable()).toEqual(expected)
    expect(statSync(file).size).toBeGreaterThan(10_000)
    expect(readdirSync(unpacked)).toHaveLength(1)
  }, 60_000)

  it('does not use a directory that others can write to, or that is a link', async () => {
    chmodSync(unpacked, 0o777)
    await expect(runExecutable()).rejects.toThrow(/STATE_DIR_UNAVAILABLE|others can write to it/)
    rmSync(unpacked, { recursive: true })
    symlinkSync(executable.temporary, unpacked)
    await expect(runExecutable()).rejects.toThrow(/STATE_DIR_UNAVAILABLE|no directory of this user/)
  }, 60_000)
})
