import { describe, expect, it } from 'vitest'
import { LogDecoder } from '../../lib/backends/native/processes/log-decoder.js'
import type { NativeLog } from '../../lib/boundary/index.js'
import { withRandom } from '../helpers/random.js'

/** A slice of the pieces [stream, cursor, bytes]. */
function slice(...pieces: Array<[number, number, Buffer | string]>): NativeLog {
  const made = pieces.map(([stream, cursor, data]) => ({ stream, cursor, data: Buffer.from(data), time: 0 }))
  const last = made.at(-1)
  return { pieces: made, next: last ? last.cursor + last.data.length : 0, dropped: 0, lost: 0, ended: false }
}

const brief = (events: ReturnType<LogDecoder['write']>) =>
  events.map(({ type, data, cursor, missing }) => [type, data, cursor, missing ?? 0])

describe('LogDecoder', () => {
  const euro = Buffer.from('€')

  it('gives a character that came in two pieces with the second, whatever the other stream did meanwhile', () => {
    const decoder = new LogDecoder('utf8', 0)
    const events = decoder.write(
      slice(
        [1, 0, Buffer.concat([Buffer.from('a'), euro.subarray(0, 1)])],
        [2, 2, 'b'],
        [1, 3, euro.subarray(1)],
      ),
    )
    expect(brief(events)).toEqual([
      ['stdout', 'a', 2, 0],
      ['stderr', 'b', 3, 0],
      ['stdout', '€', 5, 0],
    ])
  })

  it('gives bytes as they are', () => {
    const decoder = new LogDecoder('buffer', 0)
    expect(brief(decoder.write(slice([1, 0, euro.subarray(0, 1)])))).toEqual([
      ['stdout', euro.subarray(0, 1), 1, 0],
    ])
  })

  it('goes on within a character from the cursor of an event', () => {
    const decoder = new LogDecoder('utf8', 2)
    decoder.prime(slice([1, 0, Buffer.concat([Buffer.from('a'), euro.subarray(0, 1)])]))
    expect(brief(decoder.write(slice([1, 2, euro.subarray(1)])))).toEqual([['stdout', '€', 4, 0]])
  })

  it('reports missing bytes, in front and between, and drops incomplete text before them', () => {
    const decoder = new LogDecoder('utf8', 0)
    expect(brief(decoder.write(slice([1, 10, euro.subarray(0, 2)])))).toEqual([])
    expect(brief(decoder.write(slice([1, 20, 'x'], [2, 21, 'y'])))).toEqual([
      ['stdout', 'x', 21, 18],
      ['stderr', 'y', 22, 0],
    ])
    expect(brief(decoder.write({ ...slice(), next: 30 }))).toEqual([])
    expect(decoder.takeMissing()).toBe(8)
  })

  it('ends with the incomplete rest', () => {
    const decoder = new LogDecoder('utf8', 0)
    decoder.write(slice([2, 0, euro.subarray(0, 2)]))
    expect(brief(decoder.end(0))).toEqual([['stderr', '\ufffd', 2, 0]])
  })

  it('gives the same text from any cursor on', () =>
    withRandom((random) => {
      for (let round = 0; round < 50; round++) {
        const bytes = random.bytes(60)
        const cuts = [0, ...Array.from({ length: 8 }, () => random.below(60)), 60].sort((a, b) => a - b)
        const pieces = cuts
          .slice(1)
          .map((end, index): [number, number, Buffer] => [
            1,
            cuts[index] ?? 0,
            bytes.subarray(cuts[index], end),
          ])
          .filter(([, , data]) => data.length > 0)
        const whole = new LogDecoder('utf8', 0)
        const events = [...whole.write(slice(...pieces)), ...whole.end(0)]
        expect(events.map(({ data }) => data).join('')).toBe(bytes.toString('utf8'))
        for (const [index, { cursor }] of events.entries()) {
          const later = new LogDecoder('utf8', cursor)
          later.prime(slice([1, 0, bytes.subarray(0, cursor)]))
          const rest = cursor < 60 ? later.write(slice([1, cursor, bytes.subarray(cursor)])) : []
          const text = [...rest, ...later.end(0)].map(({ data }) => data).join('')
          const expected = events.slice(index + 1)
          if (expected.length > 0) expect(text).toBe(expected.map(({ data }) => data).join(''))
        }
      }
    }))
})
