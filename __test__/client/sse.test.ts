/** Events are the same wherever their bytes were cut. */
import { describe, expect, it } from 'vitest'
import { EventSplitter } from '../../lib/client/sse.js'
import { fromBase64, toBase64 } from '../../lib/protocol/base64.js'

const text =
  ':\n\nid: 1\ndata: {"a":"ä\u{1f41a}"}\n\n:\n\ndata: {"b":"x\\n\\ny"}\n\nid: 3\ndata: {"c":1}\n\ndata: {"cut'
const events = [
  { id: '1', data: { a: 'ä\u{1f41a}' } },
  { id: undefined, data: { b: 'x\n\ny' } },
  { id: '3', data: { c: 1 } },
]

describe('EventSplitter', () => {
  it('gives whole events, however the bytes come', () => {
    const bytes = new TextEncoder().encode(text)
    for (let size = 1; size <= bytes.length; size++) {
      const splitter = new EventSplitter()
      const found = []
      for (let start = 0; start < bytes.length; start += size)
        found.push(...splitter.write(bytes.subarray(start, start + size)))
      expect(found).toEqual(events)
    }
  })

  it('puts a large event together in time that grows with its size', () => {
    const piece = new TextEncoder().encode('x'.repeat(16 * 1024))
    const splitter = new EventSplitter()
    splitter.write(new TextEncoder().encode('data: "'))
    for (let count = 0; count < 2000; count++) expect(splitter.write(piece)).toEqual([])
    const [event] = splitter.write(new TextEncoder().encode('"\n\n'))
    expect(event?.data).toHaveLength(2000 * 16 * 1024)
  })
})

describe('base64', () => {
  it('keeps all bytes', () => {
    for (const length of [0, 1, 2, 3, 255, 20_000]) {
      const bytes = Uint8Array.from({ length }, (_, index) => (index * 31) % 256)
      expect(toBase64(bytes)).toBe(Buffer.from(bytes).toString('base64'))
      expect(fromBase64(toBase64(bytes))).toEqual(bytes)
    }
  })
})
