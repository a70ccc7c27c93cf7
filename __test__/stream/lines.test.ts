import { describe, expect, it } from 'vitest'
import { LineTranslator } from '../../lib/run/lines.js'
import { withRandom } from '../helpers/random.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { all, made } from '../helpers/stream.js'

describe('lines', () => {
  itInSandbox('leave the event loop its turns, however many wait', async ({ sandbox, directory }) => {
    const lines = sandbox.execStream('seq 500000; touch printed').lines()
    await made(directory, 'printed')
    let [sum, turns, reading] = [0, 0, true]
    const turn = () => {
      turns++
      if (reading) setImmediate(turn)
    }
    setImmediate(turn)
    for await (const line of lines) sum += JSON.parse(line)
    reading = false
    expect(sum).toBe(125_000_250_000)
    expect(turns).toBeGreaterThan(6)
  })

  itInSandbox('may be 20 MB long', async ({ sandbox }) => {
    const lines = await all(
      sandbox.execStream("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo y").lines(),
    )
    expect(lines.map(({ length }) => length)).toEqual([20_000_000, 1])
  })

  it('are the same however the bytes are cut', () =>
    withRandom((random) => {
      for (let round = 0; round < 2000; round++) {
        const bytes = random.bytes(40)
        for (const byte of [0x0a, 0x0d, 0x0a]) bytes[random.below(40)] = byte
        const translator = new LineTranslator([1])
        const found: string[] = []
        for (let at = 0; at < bytes.length; at += 1 + (round % 5)) {
          const data = bytes.subarray(at, at + 1 + (round % 5))
          found.push(...translator.translate({ type: 'output', stream: 1, data, end: 0, time: 0 }))
        }
        found.push(...translator.translate({ type: 'end', time: 0, error: undefined }))
        const expected = bytes.toString().split('\n')
        if (expected.at(-1) === '') expected.pop()
        const ended = bytes[39] === 0x0a ? expected.length : expected.length - 1
        expect(found).toEqual(expected.map((line, index) => (index < ended ? line.replace(/\r$/, '') : line)))
      }
    }))
})
