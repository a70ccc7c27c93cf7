import { describe, expect, it } from 'vitest'
import { interleaveBytes, interleaveText } from '../lib/backends/native/interleave.js'

const order = (...lengths: number[]) => Uint32Array.from(lengths)
const text = (value: string) => ({ text: value, bytes: undefined })

describe('interleaveBytes', () => {
  it('alternates, beginning with stdout', () => {
    const all = interleaveBytes(Buffer.from('aabb'), Buffer.from('123'), order(2, 1, 2, 2))
    expect(all.toString()).toBe('aa1bb23')
  })

  it('begins with stderr when the first run is empty', () => {
    expect(interleaveBytes(Buffer.from('a'), Buffer.from('1'), order(0, 1, 1)).toString()).toBe('1a')
  })

  it('loses nothing that the order leaves over', () => {
    expect(interleaveBytes(Buffer.from('ab'), Buffer.from('12'), order(1, 1)).toString()).toBe('a1b2')
  })
})

describe('interleaveText', () => {
  it('cuts plain text where the bytes were', () => {
    expect(interleaveText(text('aabb'), text('123'), order(2, 1, 2, 2))).toBe('aa1bb23')
  })

  it('counts bytes, not units, in text that is not ASCII', () => {
    expect(interleaveText(text('ü€'), text('\u{1f41a}x'), order(2, 4, 3, 1))).toBe('ü\u{1f41a}€x')
  })

  it('keeps a character whole that arrived in two runs', () => {
    expect(interleaveText(text('a€b'), text('!'), order(2, 1, 3))).toBe('a!€b')
  })

  it('uses the bytes where they are at hand, invalid ones included', () => {
    const bytes = Buffer.from([0xff, 0x61, 0xe2, 0x82])
    const stdout = { text: bytes.toString('utf8'), bytes }
    expect(interleaveText(stdout, text('!'), order(2, 1, 2))).toBe('\ufffda!\ufffd')
  })

  it('takes 100,000 runs without quadratic time', () => {
    const runs = new Uint32Array(100_000).fill(1)
    const all = interleaveText(text('a'.repeat(50_000)), text('b'.repeat(50_000)), runs)
    expect(all === 'ab'.repeat(50_000)).toBe(true)
  })
})
