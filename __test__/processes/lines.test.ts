import { describe, expect, it } from 'vitest'
import { LineAssembler } from '../../lib/backends/native/processes/lines.js'

describe('LineAssembler', () => {
  it('gives lines when they are complete, wherever they were cut', () => {
    const lines = new LineAssembler()
    expect(lines.write('one\ntw')).toEqual(['one'])
    expect(lines.rest).toBe('tw')
    expect(lines.write('o\r')).toEqual([])
    expect(lines.write('\n\nthree')).toEqual(['two', ''])
    expect(lines.rest).toBe('three')
  })

  it('gives a line without an end in parts that overlap, in a time that does not grow', () => {
    const lines = new LineAssembler()
    const parts: string[] = []
    for (let count = 0; count < 1000; count++) parts.push(...lines.write('x'.repeat(65_535) + (count % 10)))
    expect(parts.length).toBeGreaterThan(50)
    expect(Math.max(...parts.map((part) => part.length))).toBeLessThan(1.2 * 1024 * 1024)
    expect(lines.rest.length).toBeLessThan(1.2 * 1024 * 1024)
    expect(parts[1]?.startsWith(parts[0]?.slice(-65_536) ?? '?')).toBe(true)
  })
})
