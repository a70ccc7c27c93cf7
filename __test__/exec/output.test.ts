import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { leastStall, MAX_STALL_MS } from '../helpers/stall.js'

/** A command that prints each piece when its callback got the one before: only then is their order sure. */
function inTurn(directory: string, name: string, prints: string[]) {
  const gate = (index: number) => path.join(directory, `${name}-${index}`)
  const command = prints.map((print, index) => `${print}; until [ -e ${gate(index)} ]; do sleep 0.01; done`)
  let come = 0
  return { command: command.join('; '), onOutput: () => writeFileSync(gate(come++), '') }
}

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

  it('is text with U+FFFD for what is not UTF-8', () =>
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
      const command = 'echo 1; sleep 0.05; echo 2 >&2; sleep 0.05; echo ü; sleep 0.05; echo 4 >&2'
      let together = ''
      // Nobody says when a line has come: the machine may take longer for it than the command waits.
      for (let round = 0; round < 3 && together !== '1\n2\nü\n4\n'; round++) {
        const { stdout, stderr, all } = await sandbox.exec(command)
        expect([stdout, stderr]).toEqual(['1\nü\n', '2\n4\n'])
        together = all
      }
      expect(together).toBe('1\n2\nü\n4\n')
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
    it(`beyond ${maxBuffer} bytes keeps head and tail and counts the rest`, () =>
      withSandbox(async ({ sandbox }) => {
        const { stdout, stderr, truncated, exitCode } = await sandbox.exec('seq 10000; echo e >&2', {
          maxBuffer,
        })
        const whole = Array.from({ length: 10_000 }, (_, index) => `${index + 1}\n`).join('')
        expect(exitCode).toBe(0)
        expect(stdout.length).toBe(maxBuffer)
        expect(truncated).toEqual({ stdout: whole.length - maxBuffer, stderr: 2 - stderr.length })
        const tail = stdout.slice(Math.ceil(maxBuffer / 2))
        expect(whole.startsWith(stdout.slice(0, Math.floor(maxBuffer / 2)))).toBe(true)
        expect(whole.endsWith(tail)).toBe(true)
      }))
  }

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
    it(`of ${name} arrives whole as text without stalling the event loop`, () =>
      withSandbox(
        async ({ sandbox }) => {
          const whole = Buffer.alloc(bytes, 'aü€\n').toString()
          const stall = await leastStall(
            () => sandbox.exec(`yes 'aü€' | head -c ${bytes}`),
            ({ stdout }) => expect(stdout === whole).toBe(true),
          )
          expect(stall).toBeLessThan(MAX_STALL_MS)
        },
        { mayStall: true },
      ))
  }
})
