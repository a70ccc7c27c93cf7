import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'

/** A command that prints each piece when its callback got the one before: only then is their order sure. */
function inTurn(directory: string, name: string, prints: string[]) {
  const gate = (index: number) => path.join(directory, `${name}-${index}`)
  const command = prints.map((print, index) => `${print}; until [ -e ${gate(index)} ]; do sleep 0.01; done`)
  let come = 0
  return { command: command.join('; '), onOutput: () => writeFileSync(gate(come++), '') }
}

/** Made here, since it loads a locale: no test is measured with that. */
const withCommas = new Intl.NumberFormat('en-US')

describe('output', () => {
  it('is bytes with encoding buffer, exactly', () =>
    withSandbox(async ({ sandbox }) => {
      const { stdout, stderr, all } = await sandbox.exec("printf '\\0\\xff\\r\\n\\e[0m'", {
        encoding: 'buffer',
      })
      expect(stdout).toBeInstanceOf(Uint8Array)
      expect([...stdout]).toEqual([0, 255, 13, 10, 27, 91, 48, 109])
      expect(stderr.length).toBe(0)
      expect(all).toBe(stdout)
    }))

  it('is text with U+FFFD for invalid UTF-8', () =>
    withSandbox(async ({ sandbox }) => {
      expect((await sandbox.exec("printf 'a\\xffb\\xe2\\x82'")).stdout).toBe('a\ufffdb\ufffd')
    }))

  it('comes together in `all` in order of arrival', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const prints = ['echo 1', 'echo 2 >&2', 'echo ü', 'echo 4 >&2']
      const asText = inTurn(directory, 'text', prints)
      const { stdout, stderr, all } = await sandbox.exec(asText.command, { onOutput: asText.onOutput })
      expect([stdout, stderr, all]).toEqual(['1\nü\n', '2\n4\n', '1\n2\nü\n4\n'])
      const { command, onOutput } = inTurn(directory, 'bytes', prints)
      const bytes = await sandbox.exec(command, { encoding: 'buffer', stripFinalNewline: true, onOutput })
      expect(Buffer.from(bytes.all).toString()).toBe('1\n2\nü\n4')
    }))

  it('comes together in `all` without a callback too', () =>
    withSandbox(async ({ sandbox }) => {
      // Nothing says when a line has arrived, so the command waits for far longer than that takes.
      const command = 'echo 1; sleep 0.3; echo 2 >&2; sleep 0.3; echo ü; sleep 0.3; echo 4 >&2'
      const { stdout, stderr, all } = await sandbox.exec(command)
      expect([stdout, stderr, all]).toEqual(['1\nü\n', '2\n4\n', '1\n2\nü\n4\n'])
    }))

  it('keeps everything of invalid text in `all`', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const prints = ["printf 'a\\xff\\n'", "printf 'e\\xfe\\n' >&2", 'echo b']
      const { command, onOutput } = inTurn(directory, 'invalid', prints)
      const { all } = await sandbox.exec(command, { onOutput })
      expect(all).toBe('a\ufffd\ne\ufffd\nb\n')
    }))

  it('loses one final newline with stripFinalNewline', () =>
    withSandbox(async ({ sandbox }) => {
      const { stdout, stderr, all } = await sandbox.exec("printf 'a\\n\\n'; printf 'b\\r\\n' >&2", {
        stripFinalNewline: true,
      })
      expect([stdout, stderr]).toEqual(['a\n', 'b'])
      expect(['a\n\nb', 'b\r\na\n']).toContain(all)
    }))

  for (const maxBuffer of [0, 1, 10, 1000]) {
    it(`beyond ${maxBuffer} bytes keeps whole lines of head and tail, and a line with the number of missing bytes`, () =>
      withSandbox(async ({ sandbox }) => {
        const { stdout, stderr, truncated, exitCode } = await sandbox.exec('seq 10000; echo e >&2', {
          maxBuffer,
        })
        const whole = Array.from({ length: 10_000 }, (_, index) => `${index + 1}\n`).join('')
        expect(exitCode).toBe(0)
        const missing = truncated?.stdout ?? 0
        const marker = `[${withCommas.format(missing)} bytes omitted]\n`
        const [head = '', tail = ''] = maxBuffer === 0 ? [] : stdout.split(marker)
        expect(stdout).toBe(maxBuffer === 0 ? '' : head + marker + tail)
        expect([whole.startsWith(head), whole.endsWith(tail)]).toEqual([true, true])
        expect(head === '' || head.endsWith('\n')).toBe(true)
        expect(missing).toBe(whole.length - head.length - tail.length)
        expect(head.length + tail.length).toBeGreaterThan(maxBuffer - 12)
        expect([maxBuffer > 1, truncated?.stderr]).toEqual(stderr === 'e\n' ? [true, 0] : [false, 2])
      }))
  }

  it('beyond maxBuffer has no mark in bytes: the result has the offset of the gap', () =>
    withSandbox(async ({ sandbox }) => {
      const { stdout, truncated, truncatedAt } = await sandbox.exec('printf 0123456789', {
        maxBuffer: 5,
        encoding: 'buffer',
      })
      expect([Buffer.from(stdout).toString(), truncated]).toEqual(['01789', { stdout: 5, stderr: 0 }])
      expect(truncatedAt).toEqual({ stdout: 2, stderr: 0 })
    }))

  it('beyond maxBuffer splits no character, and is marked in `all` as well', () =>
    withSandbox(async ({ sandbox }) => {
      const one = await sandbox.exec("printf 'äöüäöü'", { maxBuffer: 6 })
      expect([one.stdout, one.all]).toEqual(Array(2).fill('ä\n[8 bytes omitted]\nü'))
      const both = await sandbox.exec('seq 1000; seq 1000 >&2', { maxBuffer: 20 })
      expect(both.stdout).toBe('1\n2\n3\n4\n5\n[3,874 bytes omitted]\n999\n1000\n')
      expect(both.stderr).toBe(both.stdout)
      expect(both.all.split('\n').sort()).toEqual((both.stdout + both.stderr).split('\n').sort())
      expect(both.all.match(/^\[3,874 bytes omitted\]$/gm)).toHaveLength(2)
    }))

  it('of exactly maxBuffer bytes is complete', () =>
    withSandbox(async ({ sandbox }) => {
      const { stdout, truncated } = await sandbox.exec('printf 12345', { maxBuffer: 5 })
      expect([stdout, truncated]).toEqual(['12345', null])
    }))

  for (const [name, bytes] of [
    ['just below 1 MiB', 2 ** 20 - 1],
    ['just above 1 MiB', 2 ** 20 + 1],
    ['32 MiB', 2 ** 25],
  ] as const) {
    it(`of ${name} arrives whole as text`, () =>
      withSandbox(async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(`yes 'aü€' | head -c ${bytes}`)
        expect(stdout === Buffer.alloc(bytes, 'aü€\n').toString()).toBe(true)
      }))
  }
})
