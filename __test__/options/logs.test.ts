import { describe, expect, it } from 'vitest'
import { planFilter, planLogStream, planLogs, readKill } from '../../lib/requests/logs.js'
import { refusalOf } from '../helpers/thrown.js'

describe('planLogStream', () => {
  it('follows the whole log as text by default', () => {
    expect(planLogStream(undefined, 'output')).toEqual({
      cursor: 0,
      follow: true,
      signal: undefined,
      encoding: 'utf8',
    })
  })

  it('refuses other things by name', () => {
    for (const [options, mentions] of [
      [{ cursor: 1.5 }, 'cursor must be'],
      [{ cursor: -1 }, 'cursor must be'],
      [{ follow: 1 }, 'follow must be'],
      [{ encoding: 'latin1' }, 'encoding must be'],
      [{ signal: 'SIGTERM' }, 'AbortSignal'],
      [{ from: 1 }, 'output has no option "from"'],
    ] as const) {
      expect(refusalOf(() => planLogStream(options, 'output')).message).toContain(mentions)
    }
    expect(refusalOf(() => planLogs({ follow: true }, 'getLogs')).message).toContain('getLogs has no option')
  })
})

describe('readKill', () => {
  it('leaves missing options to the process', () => {
    expect(readKill(undefined, undefined, 'kill')).toEqual({})
    expect(readKill('SIGINT', { forceKillAfterDelay: 0 }, 'kill')).toEqual({
      signal: 2,
      forceKillAfterDelay: 0,
    })
  })

  it('refuses signals that are none', () => {
    for (const signal of [0, 65, 'TERM', 'SIGFOO', null]) {
      expect(refusalOf(() => readKill(signal, undefined, 'kill')).message).toContain('signal must be')
    }
  })
})

describe('planFilter', () => {
  it('takes one state or several', () => {
    expect(planFilter(undefined)).toEqual({})
    expect(planFilter({ state: 'running' }).state).toEqual(new Set(['running']))
    expect(planFilter({ state: ['exited', 'killed'], sessionId: 'a' })).toEqual({
      state: new Set(['exited', 'killed']),
      sessionId: 'a',
    })
  })

  it('refuses other things by name', () => {
    expect(refusalOf(() => planFilter({ state: 'ended' })).message).toContain('state must be one of starting')
    expect(refusalOf(() => planFilter({ state: ['running', 5] })).message).toContain('not 5')
    expect(refusalOf(() => planFilter({ id: 'x' })).message).toContain('no option "id"')
  })
})
