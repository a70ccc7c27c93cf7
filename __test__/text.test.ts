import { StringDecoder } from 'node:string_decoder'
import { describe, expect, it } from 'vitest'
import { cutOf, omissionIn } from '../lib/base/omission.js'
import { decodeText } from '../lib/base/text.js'
import { characterBoundary, PieceDecoder } from '../lib/base/utf8.js'
import { nameOf, withoutFinalSlashes } from '../lib/schema/paths.js'
import { withRandom } from './helpers/random.js'

const SLICE = 256 * 1024

describe('decodeText', () => {
  it('decodes what is smaller than a slice', async () => {
    expect(await decodeText(Buffer.from(''))).toBe('')
    expect(await decodeText(Buffer.from('aü\u{1f41a}\0\r\n'))).toBe('aü\u{1f41a}\0\r\n')
  })

  it('replaces invalid bytes and keeps a byte order mark', async () => {
    expect(await decodeText(Buffer.from([0xff, 0x41, 0xc3]))).toBe('\ufffdA\ufffd')
    expect(await decodeText(Buffer.from([0xef, 0xbb, 0xbf, 0x41]))).toBe('\ufeffA')
  })

  it('joins characters that lie across slices', async () => {
    for (const offset of [0, 1, 2, 3]) {
      const text = `${'x'.repeat(offset)}${'\u{1f41a}'.repeat(SLICE / 4 + 10)}`
      expect((await decodeText(Buffer.from(text))) === text).toBe(true)
    }
  })

  it('decodes invalid bytes across slices as it would in one piece', () =>
    withRandom(async (random) => {
      const bytes = random.bytes(SLICE + 64)
      bytes.fill(0x61, 0, SLICE - 64)
      for (let round = 0; round < 20; round++) {
        random.bytes(128).copy(bytes, SLICE - 64)
        expect((await decodeText(bytes)) === bytes.toString('utf8')).toBe(true)
      }
    }))
})

describe('characterBoundary', () => {
  it('never splits what decodes as one character', () =>
    withRandom((random) => {
      for (let round = 0; round < 5000; round++) {
        const bytes = random.bytes(12)
        const at = round % 13
        const cut = characterBoundary(bytes, at)
        expect(cut).toBeGreaterThan(at - 4)
        expect(cut).toBeLessThanOrEqual(at)
        expect(bytes.toString('utf8', 0, cut) + bytes.toString('utf8', cut)).toBe(bytes.toString('utf8'))
      }
    }))
})

describe('omissionIn', () => {
  it('never splits a character, whatever the size, the place and the text are', () =>
    withRandom((random) => {
      const characters = ['a', 'ä', '\u20ac', '\u{1f41a}', '\n']
      for (let round = 0; round < 20_000; round++) {
        const text = Array.from({ length: 20 }, () => characters[random.below(5)]).join('')
        const bytes = Buffer.from(text)
        const maxBuffer = random.below(bytes.length)
        const cut = cutOf(maxBuffer)
        const kept = Buffer.concat([bytes.subarray(0, cut), bytes.subarray(bytes.length - maxBuffer + cut)])
        const omission = omissionIn(kept, cut, bytes.length - maxBuffer)
        if (omission === undefined) continue
        const { start, end, missing } = omission
        const [head, tail] = [kept.toString('utf8', 0, start), kept.toString('utf8', end)]
        expect(text.startsWith(head) && text.endsWith(tail), `${maxBuffer} of ${JSON.stringify(text)}`).toBe(
          true,
        )
        expect(missing).toBe(bytes.length - Buffer.byteLength(head + tail))
      }
    }))
})

describe('StringDecoder, which the events are decoded with', () => {
  it('gives the same text however the bytes are cut', () =>
    withRandom((random) => {
      for (let round = 0; round < 5000; round++) {
        const bytes = random.bytes(12)
        const decoder = new StringDecoder('utf8')
        const text = Array.from(bytes, (byte) => decoder.write(Buffer.from([byte]))).join('') + decoder.end()
        expect(text).toBe(bytes.toString('utf8'))
      }
    }))
})

describe('PieceDecoder', () => {
  it('gives the same text as a whole however the bytes are cut, and knows how many bytes that was', () =>
    withRandom((random) => {
      for (let round = 0; round < 5000; round++) {
        const bytes = random.bytes(24)
        const size = 1 + (round % 7)
        const decoder = new PieceDecoder()
        let text = ''
        for (let start = 0; start < bytes.length; start += size) {
          text += decoder.write(bytes.subarray(start, start + size))
          expect(text).toBe(bytes.toString('utf8', 0, decoder.position))
          expect(decoder.position).toBeGreaterThan(Math.min(start + size, bytes.length) - 4)
        }
        text += decoder.end()
        expect(text).toBe(bytes.toString('utf8'))
        expect(decoder.position).toBe(bytes.length)
      }
    }))
})

describe('a path that a program has chosen', () => {
  it('has a name, which is found without trying each part of it', () => {
    expect(['/', '//', '/a', 'a//', '/b/a/', 'a'].map(nameOf)).toEqual(['/', '/', 'a', 'a', 'a', 'a'])
    // An expression that tries each character as the first one would take hours.
    const long = 'a'.repeat(1_000_000)
    expect(nameOf(`${long}/${long}/b`)).toBe('b')
    expect(withoutFinalSlashes(`${'/'.repeat(1_000_000)}a/`)).toHaveLength(1_000_001)
  })
})
