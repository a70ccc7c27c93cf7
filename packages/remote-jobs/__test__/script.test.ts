/** The script itself, and what is concluded from what it tells. */
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { jobOf, readFacts, statusOf } from '../lib/facts.js'
import { readReply } from '../lib/remote-call.js'
import { SCRIPT } from '../lib/script/script.js'
import { everyShell, inEveryShell } from './places.js'

inEveryShell(
  'the script',
  (shell) => {
    it('is well-formed', () => {
      const { status, stderr } = spawnSync('sh', ['-n'], {
        input: SCRIPT,
        encoding: 'utf8',
        env: { PATH: shell.path },
      })
      expect([status, stderr]).toEqual([0, ''])
    })
  },
  everyShell,
)

it('the script has no words of bash alone, and no line is wider than a page', () => {
  for (const line of SCRIPT.split('\n')) {
    expect(line).not.toMatch(/\[\[|\]\]|^\s*(function|local|declare) |<<<|\$'|&>|<\(|>\(/)
    expect(line.length).toBeLessThan(140)
  }
})

describe('the state', () => {
  const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64')
  const status = (...lines: string[]) => {
    const [facts] = readFacts(['job j', ...lines])
    return facts && statusOf(facts)
  }

  it('of an end between the two looks is not a crash', () => {
    expect(status('meta', 'life dead', `second 3 ${encoded({ exitCode: 3 })}`)).toMatchObject({
      state: 'exited',
      exitCode: 3,
    })
    expect(status('meta', 'life alive', 'second 3')).toMatchObject({ state: 'running' })
    expect(status('meta', 'life dead')).toMatchObject({ state: 'crashed', reason: 'killed' })
    expect(status('meta', 'life reboot')).toMatchObject({ state: 'crashed', reason: 'reboot' })
  })

  it('of a directory without a job is none', () => {
    expect(status('life dead')).toBe(undefined)
    expect(status('life alive')).toBe(undefined)
    expect(readFacts([])).toEqual([])
  })

  it('after the end is alive while processes are left, and has the signal', () => {
    const killed = `first 137 ${encoded({ exitCode: null, signal: 9, reason: 'signal', leftBehind: true })}`
    expect(status(killed, 'meta', 'life alive')).toMatchObject({
      exitCode: undefined,
      signal: 9,
      alive: true,
    })
    const clean = `first 0 ${encoded({ exitCode: 0, leftBehind: false })}`
    expect(status(clean, 'meta', 'life alive')).toMatchObject({ exitCode: 0, alive: false })
    expect(status('first 4', 'meta', 'life dead')).toMatchObject({ exitCode: 4, reason: undefined })
  })

  it('has a handle only when meta.json is whole and names a group that may be signalled', () => {
    const whole = { jobId: 'j', pgid: 7, dir: '/r/j', outputFile: '/r/j/output.log', exitFile: '/r/j/exit' }
    const handle = (meta: object | string) => {
      const text = typeof meta === 'string' ? Buffer.from(meta).toString('base64') : encoded(meta)
      const [facts] = readFacts(['job j', `meta ${text}`])
      return facts && jobOf(facts)
    }
    expect(handle(whole)).toMatchObject(whole)
    for (const pgid of [0, 1, -1, 1.5, '7', null]) expect(handle({ ...whole, pgid })).toBe(undefined)
    for (const meta of [{ ...whole, jobId: 'k' }, {}, 'null', '[]', '{', JSON.stringify(whole).slice(0, -1)])
      expect(handle(meta)).toBe(undefined)
  })
})

it('a reply is the text between the marks, and empty when a mark is missing', () => {
  expect(readReply('motd\n<nacre\nleft no \r\nnacre>\nbye')).toEqual(['left no'])
  for (const text of ['', '<nacre\nleft no', 'left no\nnacre>', 'nacre>\n<nacre'])
    expect(readReply(text)).toBe(undefined)
})
