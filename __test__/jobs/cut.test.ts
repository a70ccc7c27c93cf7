/** The arithmetic of reading: what is handed out, and that nothing is lost, doubled or split however it is read. */
import { describe, expect, it } from 'vitest'
import { deliverable } from '../../lib/jobs/cut.js'
import { freshJobId } from '../../lib/jobs/ids.js'
import { type Fetch, readJob } from '../../lib/jobs/read.js'

const unknown = { signal: null, reason: null, endTime: null, duration: null }
const running = { state: 'running', exitCode: null, alive: true, ...unknown } as const
const over = { state: 'exited', exitCode: 0, alive: false, ...unknown } as const

/** A job whose output is all there, still running or over. */
function fetchFrom(output: Buffer, ended: boolean): Fetch {
  return async (cursor, maxBytes) => ({
    status: ended ? over : running,
    bytes: output.subarray(cursor, cursor + maxBytes),
    atEnd: cursor + maxBytes >= output.length,
  })
}

/** Reads until nothing more comes. */
async function readAll(output: Buffer, ended: boolean, maxBytes: number, lines: boolean) {
  const texts: string[] = []
  let cursor = 0
  for (;;) {
    const { read } = await readJob(fetchFrom(output, ended), cursor, { maxBytes, lines, encoding: 'utf8' })
    if (read.bytesFetched === 0) return { texts, cursor }
    expect(read.cursor).toBe(cursor + read.bytesFetched)
    cursor = read.cursor
    texts.push(read.raw as string)
  }
}

describe('the part of the output that can be returned', () => {
  const window = { atEnd: false, ended: false, full: true }
  it.each([
    ['whole lines', 'a\nbc', 2],
    ['nothing of a line that has no end', 'abc', 0],
    ['all of it when the line fills the window', 'abc', 3, true],
  ])('%s', (_, text, length, full = false) => {
    const bytes = Buffer.from(text)
    expect(deliverable({ ...window, full, bytes }, { lines: true, text: true })).toBe(length)
    expect(deliverable({ bytes, atEnd: true, ended: true, full }, { lines: true, text: true })).toBe(
      bytes.length,
    )
  })

  it('never a part of a character, but any byte when the job is over', () => {
    const euro = Buffer.from('a€').subarray(0, 3)
    expect(deliverable({ ...window, bytes: euro }, { lines: false, text: true })).toBe(1)
    expect(deliverable({ ...window, bytes: euro }, { lines: false, text: false })).toBe(3)
    expect(
      deliverable({ bytes: euro, atEnd: true, ended: true, full: false }, { lines: false, text: true }),
    ).toBe(3)
  })
})

describe('reading piece by piece', () => {
  const mixed = Buffer.concat([
    Buffer.from('plain\nzwölf €uro 😀\n'),
    Buffer.from([0xff, 0xc3, 0x0a, 0xe2, 0x82, 0x0a, 0xf0, 0x9f, 0x80, 0x80, 0x80, 0x80]),
    Buffer.from('\0nul 😀😀'),
  ])

  for (const lines of [false, true]) {
    it(`gives the whole text at any size, lines: ${lines}`, async () => {
      for (let maxBytes = 1; maxBytes <= mixed.length + 1; maxBytes++) {
        const { texts, cursor } = await readAll(mixed, true, maxBytes, lines)
        expect(cursor).toBe(mixed.length)
        expect(texts.join('')).toBe(mixed.toString('utf8'))
      }
    })
  }

  it('keeps the unterminated line and the unfinished character back while the job runs', async () => {
    const whole = await readAll(mixed, false, 1000, true)
    expect(whole.cursor).toBe(mixed.lastIndexOf(0x0a) + 1)
    const unfinished = await readAll(Buffer.from('ab€').subarray(0, 4), false, 1000, false)
    expect(unfinished).toEqual({ texts: ['ab'], cursor: 2 })
  })
})

it('ids sort by time also when the clock is set back, and do not repeat', () => {
  const now = Date.now() + 1_000_000
  const ids = [now, now, now + 1, now - 500_000, now, now + 2].map((time) => freshJobId(time))
  expect(ids).toEqual([...ids].sort())
  const many = Array.from({ length: 40_000 }, () => freshJobId(now + 3))
  expect(many).toEqual([...many].sort())
  expect(new Set(many.map((id) => id.slice(-16))).size).toBe(many.length)
})
