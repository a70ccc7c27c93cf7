/** One endless line, NUL, CRLF, ANSI sequences, bytes that are no text, characters in pieces. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import { withRandom } from '../helpers/random.js'

const MEGABYTE = 2 ** 20

/** Both as Buffers; a comparison that fails does not print megabytes. */
function same(one: Uint8Array, other: Uint8Array): boolean {
  return Buffer.compare(one, other) === 0
}

it('100 MB in one line arrive whole, as text and as bytes', () =>
  withSandbox(async ({ sandbox }) => {
    const limits = { maxBuffer: 128 * MEGABYTE }
    const { stdout, truncated } = await sandbox.exec("head -c 100M /dev/zero | tr '\\0' x", limits)
    expect([same(Buffer.from(stdout), Buffer.alloc(100 * MEGABYTE, 'x')), truncated]).toEqual([true, null])
    const bytes = await sandbox.exec('head -c 100M /dev/zero', { ...limits, encoding: 'buffer' })
    expect(same(bytes.stdout, Buffer.alloc(100 * MEGABYTE))).toBe(true)
  }))

/** What a terminal would act on, what C would stop at, what an editor would mend. */
const awkward =
  'a\0b\0\r\n\rover\r\n\x1b[31mred\x1b[0m\x1b]0;title\x07\x1b[2J\b\f\v\x7f\ufeff\u2028é\u0301👩‍👩‍👧\n\n'

itInEveryMode('NUL, CRLF, ANSI sequences and marks arrive unchanged', async ({ sandbox, directory }) => {
  writeFileSync(path.join(directory, 'awkward'), awkward)
  const pieces = { stdout: '', stderr: '' }
  const onOutput = (stream: 'stdout' | 'stderr', text: string) => {
    pieces[stream] += text
  }
  const result = await sandbox.exec('cat awkward; cat awkward >&2', { onOutput })
  expect([result.stdout, result.stderr, result.all.length]).toEqual([awkward, awkward, 2 * awkward.length])
  expect(pieces).toEqual({ stdout: awkward, stderr: awkward })
  const { stdout } = await sandbox.exec(['cat', 'awkward'], { encoding: 'buffer' })
  expect(same(stdout, Buffer.from(awkward))).toBe(true)
})

itInEveryMode(
  'bytes that are no text: exact as bytes, with U+FFFD as text, the same in every way they are got',
  ({ sandbox, directory }) =>
    withRandom(async (random) => {
      const bytes = random.bytes(3 * MEGABYTE)
      writeFileSync(path.join(directory, 'noise'), bytes)
      const asBytes = await sandbox.exec('cat noise; cat noise >&2', { encoding: 'buffer' })
      expect(same(asBytes.stdout, bytes) && same(asBytes.stderr, bytes)).toBe(true)
      expect(asBytes.all.length).toBe(2 * bytes.length)
      const text = bytes.toString()
      let pieces = ''
      const asText = await sandbox.exec('cat noise', {
        onOutput: (_, piece) => {
          pieces += piece
        },
      })
      expect([asText.stdout === text, asText.all === text, pieces === text]).toEqual([true, true, true])
    }),
)

/** Prints the bytes one at a time, each in a write of its own, with the other stream in between when asked to. */
async function byteByByte(sandbox: Sandbox, text: string, between: string) {
  const bytes = [...Buffer.from(text)].map((byte) => `printf '\\x${byte.toString(16).padStart(2, '0')}'`)
  const pieces: string[] = []
  const result = await sandbox.exec(bytes.join(`;${between} sleep 0.01;`), {
    onOutput: (stream, piece) => {
      if (stream === 'stdout') pieces.push(piece)
    },
  })
  return { ...result, pieces }
}

itInEveryMode('a character in several writes arrives as one', async ({ sandbox }) => {
  const alone = await byteByByte(sandbox, 'ü€😀', '')
  expect(alone).toMatchObject({ stdout: 'ü€😀', all: 'ü€😀', stderr: '' })
  expect([alone.pieces.join(''), alone.pieces.length > 1]).toEqual(['ü€😀', true])
  const mixed = await byteByByte(sandbox, '€😀', ' printf e >&2;')
  expect(mixed).toMatchObject({ stdout: '€😀', stderr: 'eeeeee' })
  // Where exactly an `e` falls is a matter of arrival; never into a character.
  expect([mixed.all.replaceAll('e', ''), mixed.all.length]).toEqual(['€😀', 9])
  expect(mixed.pieces.join('')).toBe('€😀')
})

itInEveryMode('a character that is never completed is one U+FFFD, at the end', async ({ sandbox }) => {
  const pieces: string[] = []
  const { stdout } = await sandbox.exec("printf 'a\\xf0\\x9f'; sleep 0.02; printf '\\x98'", {
    onOutput: (_, piece) => {
      pieces.push(piece)
    },
  })
  expect([stdout, pieces]).toEqual(['a\ufffd', ['a', '\ufffd']])
})
