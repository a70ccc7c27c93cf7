/** Far more output than is kept: the command runs to its end, and what is kept is exact. */
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { modes } from '../helpers/modes.js'

const KEPT = 1 << 20
const TOTAL = 2 ** 31

/** Runs something in a host, and prints what it returns. */
const program = (run: string) => `
  const sandbox = new Sandbox({ cwd: '/tmp', maxBuffer: ${KEPT} })
  const run = async () => { ${run} }
  const main = async () => {
    const result = await run()
    const { stdout } = await sandbox.exec('echo ok')
    await sandbox.destroy()
    print('RESULT ' + JSON.stringify({ ...result, stdout }))
  }
  main()
`

async function resultOf(run: string, env: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const host = startHost(program(run), [], env)
  expect(await host.ended(), host.output()).toBe(0)
  await expectGone(host.tag)
  return JSON.parse(/RESULT (.*)/.exec(host.output())?.[1] ?? '{}')
}

describe('2 GB of output, 1 MiB kept', () => {
  // What control groups do has no part in this: the ways of the output are two.
  for (const { name, env } of modes.filter((mode) => !('NACRE_CONTAINMENT' in mode.env))) {
    it(`on one stream: head, tail and the number of missing bytes are exact, ${name}`, async () => {
      const run = `
        const command = 'echo first; head -c 2G /dev/zero; echo last'
        const { exitCode, truncated, truncatedAt, stdout } = await sandbox.exec(command, { encoding: 'buffer' })
        const text = stdout.toString('latin1')
        const zeros = text.slice(6, -5).split('\\0').length - 1
        return { exitCode, truncated, truncatedAt, head: text.slice(0, 6), tail: text.slice(-5), zeros, length: text.length }
      `
      const result = await resultOf(run, env)
      expect(result).toEqual({
        exitCode: 0,
        truncated: { stdout: TOTAL + 11 - KEPT, stderr: 0 },
        truncatedAt: { stdout: KEPT / 2, stderr: 0 },
        head: 'first\n',
        tail: 'last\n',
        zeros: KEPT - 11,
        length: KEPT,
        stdout: 'ok\n',
      })
    })
  }

  it('on both streams concurrently, as text', async () => {
    const run = `
      const command = 'head -c 1G /dev/zero & yes | head -c 1G >&2; wait; exit 3'
      const { exitCode, truncated, stdout, stderr, all } = await sandbox.exec(command)
      return { exitCode, truncated, lengths: [stdout.length, stderr.length, all.length], tail: stderr.slice(-4) }
    `
    const result = await resultOf(run)
    const missing = TOTAL / 2 - KEPT
    const marker = `[${missing.toLocaleString('en-US')} bytes omitted]\n`.length
    expect(result).toEqual({
      exitCode: 3,
      // Whether the tail begins with a whole line is not known, so its first one goes.
      truncated: { stdout: missing, stderr: missing + 2 },
      // Zeros have no lines: the marker begins one.
      lengths: [KEPT + marker + 1, KEPT + marker - 2, 2 * (KEPT + marker) - 1],
      tail: 'y\ny\n',
      stdout: 'ok\n',
    })
  })
})

it('half a GB, of which a callback sees all', async () => {
  const run = `
    let seen = 0
    const onOutput = (stream, text) => {
      seen += text.length
    }
    const { truncated } = await sandbox.exec('head -c 512M /dev/zero', { onOutput })
    return { truncated, seen }
  `
  const result = await resultOf(run)
  const total = TOTAL / 4
  expect(result).toEqual({ truncated: { stdout: total - KEPT, stderr: 0 }, seen: total, stdout: 'ok\n' })
})
