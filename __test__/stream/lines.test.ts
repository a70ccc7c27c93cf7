import { describe, expect, it } from 'vitest'
import { LineTranslator } from '../../lib/run/lines.js'
import { withSandbox } from '../helpers/invariants.js'
import { withRandom } from '../helpers/random.js'
import { all, made } from '../helpers/stream.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('lines', () => {
  it('are those of stdout, without their ends, the last one too', () =>
    withSandbox(async ({ sandbox }) => {
      const lines = (command: string) => all(sandbox.execStream(command).lines())
      expect(await lines("printf 'a\\n\\nb\\r\\nc\\rd\\n e'; echo no >&2")).toEqual([
        'a',
        '',
        'b',
        'c\rd',
        ' e',
      ])
      expect(await lines('echo x')).toEqual(['x'])
      expect(await lines('echo')).toEqual([''])
      expect(await lines('true')).toEqual([])
      expect(await lines("printf 'x\\r'")).toEqual(['x\r'])
    }))

  it('are those of stderr, or of both, each stream’s lines whole', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const step = (name: string) => `until [ -e ${directory}/${name} ]; do sleep 0.01; done`
      const command = `printf 'o1\\no'; ${step('a')}; printf 'e1\\ne' >&2; ${step('b')}; echo 2; printf '2' >&2`
      expect(await all(sandbox.execStream('echo o; echo e >&2').lines({ from: 'stderr' }))).toEqual(['e'])
      const other = await sandbox.createSession({ id: 'other' })
      const seen: string[] = []
      for await (const line of sandbox.execStream(command).lines({ from: 'all' })) {
        seen.push(line)
        if (line === 'o1') await other.exec('touch a')
        if (line === 'e1') await other.exec('touch b')
      }
      expect(seen).toEqual(['o1', 'e1', 'o2', 'e2'])
    }))

  it('are text with encoding buffer too', () =>
    withSandbox(async ({ sandbox }) => {
      const stream = sandbox.execStream("printf 'ü\\n\\xff\\n'", { encoding: 'buffer' })
      expect(await all(stream.lines())).toEqual(['ü', '\ufffd'])
    }))

  it('come before the error of a run that failed', () =>
    withSandbox(async ({ sandbox }) => {
      const lines = sandbox.execStream('echo a; printf b; exit 3', { check: true }).lines()
      expect(await lines.next()).toEqual({ done: false, value: 'a' })
      expect(await lines.next()).toEqual({ done: false, value: 'b' })
      expect(await rejectionOf(lines.next())).toMatchObject({
        code: 'COMMAND_FAILED',
        result: { exitCode: 3 },
      })
      expect(await lines.next()).toEqual({ done: true, value: undefined })
    }))

  it('can be asked for in advance, and come in order', () =>
    withSandbox(async ({ sandbox }) => {
      const lines = sandbox.execStream('seq 5').lines()
      const steps = await Promise.all(Array.from({ length: 7 }, () => lines.next()))
      expect(steps.map(({ value }) => value)).toEqual(['1', '2', '3', '4', '5', undefined, undefined])
    }))

  it('of a million are all there', () =>
    withSandbox(async ({ sandbox }) => {
      let sum = 0
      for await (const line of sandbox.execStream('seq 1000000').lines()) sum += Number(line)
      expect(sum).toBe(500_000_500_000)
    }))

  it('leave the event loop its turns, however many wait', () =>
    withSandbox(async ({ sandbox, directory }) => {
      const lines = sandbox.execStream('seq 500000; touch printed').lines()
      await made(directory, 'printed')
      let [count, turns, reading] = [0, 0, true]
      const turn = () => {
        turns++
        if (reading) setImmediate(turn)
      }
      setImmediate(turn)
      for await (const line of lines) count += JSON.stringify({ line }).length > 0 ? 1 : 0
      reading = false
      expect(count).toBe(500_000)
      expect(turns).toBeGreaterThan(6)
    }))

  it('may be 20 MB long', () =>
    withSandbox(async ({ sandbox }) => {
      const lines = await all(
        sandbox.execStream("head -c 20000000 /dev/zero | tr '\\0' x; echo; echo y").lines(),
      )
      expect(lines.map(({ length }) => length)).toEqual([20_000_000, 1])
    }))

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
