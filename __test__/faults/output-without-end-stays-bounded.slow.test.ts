/** Far more output than is kept. The command runs to its end, and the host's memory stays where it was. */
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { collecting } from '../helpers/memory.js'
import { modes } from '../helpers/modes.js'

const KEPT = 1 << 20
const TOTAL = 2 ** 31
const MOST_GROWTH_KB = 32 * 1024

/** Events that have been seen lie about until the garbage collector comes, which is not the engine's to decide. */
const MOST_GROWTH_OF_EVENTS_KB = 4 * MOST_GROWTH_KB

/**
 * A host that does one thing first, to have its memory, and then measures by how much the most it ever had in use
 * (VmHWM in proc(5), which writing 5 to clear_refs sets back) grows over `run`. Prints what `run` returns with it; a
 * `peak` in that is the most until then.
 */
const measured = (run: string) => `
  const fs = require('fs')
  const most = () => Number(/VmHWM:\\s*(\\d+)/.exec(fs.readFileSync('/proc/self/status', 'latin1'))[1])
  const forget = () => fs.writeFileSync('/proc/self/clear_refs', '5')
  ${collecting}
  const sandbox = new Sandbox({ cwd: '/tmp', maxBuffer: ${KEPT} })
  const run = async (before) => { ${run} }
  const main = async () => {
    await sandbox.exec('head -c 8M /dev/zero', { onOutput() {} })
    forget()
    const before = most()
    const { peak = most(), ...result } = await run(before)
    const growth = peak - before
    const { stdout } = await sandbox.exec('echo ok')
    await sandbox.destroy()
    print('RESULT ' + JSON.stringify({ ...result, growth, stdout }))
  }
  main()
`

async function resultOf(program: string, env: Record<string, string> = {}): Promise<Record<string, unknown>> {
  const host = startHost(measured(program), [], env)
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
        // What the test makes of the output does not count.
        const peak = most()
        const text = stdout.toString('latin1')
        const zeros = text.slice(6, -5).split('\\0').length - 1
        return { peak, exitCode, truncated, truncatedAt, head: text.slice(0, 6), tail: text.slice(-5), zeros, length: text.length }
      `
      const { growth, ...rest } = await resultOf(run, env)
      expect(rest).toEqual({
        exitCode: 0,
        truncated: { stdout: TOTAL + 11 - KEPT, stderr: 0 },
        truncatedAt: { stdout: KEPT / 2, stderr: 0 },
        head: 'first\n',
        tail: 'last\n',
        zeros: KEPT - 11,
        length: KEPT,
        stdout: 'ok\n',
      })
      expect(growth).toBeLessThan(MOST_GROWTH_KB)
    })
  }

  it('on both streams concurrently, as text', async () => {
    const run = `
      const command = 'head -c 1G /dev/zero & yes | head -c 1G >&2; wait; exit 3'
      const { exitCode, truncated, stdout, stderr, all } = await sandbox.exec(command)
      return { exitCode, truncated, lengths: [stdout.length, stderr.length, all.length], tail: stderr.slice(-4) }
    `
    const { growth, ...rest } = await resultOf(run)
    const missing = TOTAL / 2 - KEPT
    const marker = `[${missing.toLocaleString('en-US')} bytes omitted]\n`.length
    expect(rest).toEqual({
      exitCode: 3,
      // Whether the tail begins with a whole line is not known, so its first one goes.
      truncated: { stdout: missing, stderr: missing + 2 },
      // Zeros have no lines: the marker begins one.
      lengths: [KEPT + marker + 1, KEPT + marker - 2, 2 * (KEPT + marker) - 1],
      tail: 'y\ny\n',
      stdout: 'ok\n',
    })
    expect(growth).toBeLessThan(MOST_GROWTH_KB)
  })
})

it('half a GB that a callback sees all of, in events that do not pile up', async () => {
  const run = `
    let [seen, peak] = [0, 0]
    const onOutput = (stream, text) => {
      seen += text.length
      if (most() - before < ${MOST_GROWTH_OF_EVENTS_KB}) return
      // What counts is what is no garbage.
      collect()
      forget()
      peak = Math.max(peak, most())
    }
    const { truncated } = await sandbox.exec('head -c 512M /dev/zero', { onOutput })
    return { peak: Math.max(peak, most()), truncated, seen }
  `
  const { growth, ...rest } = await resultOf(run)
  const total = TOTAL / 4
  expect(rest).toEqual({ truncated: { stdout: total - KEPT, stderr: 0 }, seen: total, stdout: 'ok\n' })
  expect(growth).toBeLessThan(MOST_GROWTH_OF_EVENTS_KB)
})
