/** Lines of a log are the same here and over HTTP. */
import { describe, expect } from 'vitest'
import type { LogLine, LogLines, LogLinesOptions } from '../../index.js'
import { rejectionOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

const numbers = ({ lines }: LogLines) => lines.map(({ number }) => number)
const texts = ({ lines }: LogLines) => lines.map(({ text }) => text)

describe('getLogLines', () => {
  itHolds('returns lines by number, from the start and from the end', async ({ sandbox }) => {
    const process = await sandbox.startProcess('seq 2500')
    await process.waitForExit()
    const all = await process.getLogLines()
    expect(all).toMatchObject({ total: 2500, first: 1, matches: null, next: 1001 })
    expect(all.lines).toHaveLength(1000)
    const line: LogLine = {
      number: 1,
      stream: 'stdout',
      text: '1',
      match: false,
      cut: false,
      ended: true,
    }
    expect(all.lines[0]).toEqual(line)
    const next = await process.getLogLines({ fromLine: 1001, lines: 2 })
    expect([texts(next), next.next]).toEqual([['1001', '1002'], 1003])
    const cases: Array<[LogLinesOptions, number[], number | null]> = [
      [{ fromLine: -3 }, [2498, 2499, 2500], null],
      [{ fromLine: -3, lines: 2 }, [2498, 2499], 2500],
      [{ lines: 2, tail: true }, [2499, 2500], null],
      [{ fromLine: 2500, lines: 9, tail: true }, [2500], null],
      [{ fromLine: -9999, lines: 1 }, [1], 2],
      [{ fromLine: 2501 }, [], null],
    ]
    for (const [options, expected, rest] of cases) {
      const reply = await process.getLogLines(options)
      expect([numbers(reply), reply.next], JSON.stringify(options)).toEqual([expected, rest])
    }
  })

  itHolds('returns lines that match, with those around them', async ({ sandbox }) => {
    const process = await sandbox.startProcess('seq 1000')
    await process.waitForExit()
    const nines = await process.getLogLines({ grep: '^9+$', context: 1 })
    expect(numbers(nines)).toEqual([8, 9, 10, 98, 99, 100, 998, 999, 1000])
    expect(nines.lines.filter(({ match }) => match).map(({ text }) => text)).toEqual(['9', '99', '999'])
    expect(nines).toMatchObject({ matches: 3, total: 1000, next: null })
    const first = await process.getLogLines({ grep: '0$', lines: 2 })
    expect([numbers(first), first.matches, first.next]).toEqual([[10, 20], 100, 30])
    const last = await process.getLogLines({ grep: '0$', lines: 2, tail: true, fromLine: 500 })
    expect([numbers(last), last.matches, last.next]).toEqual([[990, 1000], 51, null])
  })

  itHolds('names the stream of a line, and numbers lines when they end', async ({ sandbox, directory }) => {
    const command = String.raw`printf one; printf 'err\r\n' >&2; until [ -e ${directory}/go ]; do sleep 0.01; done
      printf ' more\nName? '; printf '\xff\0b\n' >&2`
    const process = await sandbox.startProcess(command)
    await process.waitForLog('err')
    await sandbox.exec(`touch ${directory}/go`)
    await process.waitForExit()
    const { lines, total } = await process.getLogLines({ encoding: 'buffer' })
    expect(total).toBe(4)
    expect(
      lines.map(({ stream, text, ended }) => [stream, Buffer.from(text).toString('latin1'), ended]),
    ).toEqual([
      ['stderr', 'err', true],
      ['stdout', 'one more', true],
      ['stderr', '\xff\0b', true],
      ['stdout', 'Name? ', false],
    ])
    expect((await process.getLogLines({ fromLine: 3, lines: 1 })).lines[0]?.text).toBe('\ufffd\0b')
  })

  itHolds('says which lines have been dropped', async ({ sandbox }) => {
    const process = await sandbox.startProcess('seq -w 100000', { logLimit: 7000 })
    await process.waitForExit()
    const { first, total, lines } = await process.getLogLines()
    expect([total, first, lines[0]?.number, lines[0]?.text]).toEqual([100_000, 99_001, 99_001, '099001'])
    const partial = await sandbox.startProcess('seq -w 100000', { logLimit: 6998 })
    await partial.waitForExit()
    expect((await partial.getLogLines({ lines: 1 })).lines[0]).toMatchObject({
      number: 99_001,
      text: '9001',
      cut: true,
    })
  })

  itHolds('splits no character where bytes are missing', async ({ sandbox }) => {
    const command = "printf '%05d€🐚\\n%.0s' {1..40}; printf '€🐚%.0s' {1..400}"
    for (let size = 300; size < 316; size++) {
      const { stdout } = await sandbox.exec(command, { maxBuffer: size })
      const process = await sandbox.startProcess(command, { logLimit: size })
      await process.waitForExit()
      const events: string[] = []
      for await (const event of process.output()) if (event.type === 'stdout') events.push(event.data)
      const { lines } = await process.getLogLines()
      const texts = [
        stdout,
        (await process.getLogs()).stdout,
        events.join(''),
        lines.map(({ text }) => text).join(),
      ]
      expect(
        texts.filter((text) => text === '' || text.includes('\ufffd')),
        String(size),
      ).toEqual([])
    }
  })

  itHolds('ends a search with its signal', async ({ sandbox }) => {
    const process = await sandbox.startProcess("head -c 8000000 /dev/zero | tr '\\0' a | fold -w 1000")
    await process.waitForExit()
    const abort = new AbortController()
    const search = process.getLogLines({ grep: '(?:.?){120}Z', signal: abort.signal })
    const ended = rejectionOf(search)
    abort.abort()
    expect(await ended).toMatchObject({ name: 'AbortError' })
    expect(await rejectionOf(process.getLogLines({ signal: AbortSignal.abort() }))).toMatchObject({
      name: 'AbortError',
    })
    expect((await process.getLogLines({ grep: '^a', lines: 1 })).lines).toHaveLength(1)
  })

  itHolds('returns all lines in replies that go on from the one before', async ({ sandbox }) => {
    const process = await sandbox.startProcess('seq 200')
    await process.waitForExit()
    const whole = await process.getLogLines({ grep: '7$', context: 2 })
    expect(whole.lines).toHaveLength(100)
    const paged: LogLine[] = []
    for (let next: number | null = 1; next !== null; ) {
      const page: LogLines = await process.getLogLines({ grep: '7$', context: 2, lines: 4, fromLine: next })
      paged.push(...page.lines)
      next = page.next
    }
    expect(paged).toEqual(whole.lines)
    const last = await process.getLogLines({ grep: '97$', context: 3, lines: 2, tail: true })
    expect(numbers(last)).toEqual([197, 198])
  })

  itHolds('refuses expressions that the engine cannot run', async ({ sandbox }) => {
    const process = await sandbox.startProcess('true')
    for (const grep of ['(', '(?=x)'])
      expect(await rejectionOf(process.getLogLines({ grep }))).toMatchObject({
        ...{ name: 'OptionError', code: 'INVALID_OPTION', message: expect.stringContaining('grep') },
      })
  })
})
