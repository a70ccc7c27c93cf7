import { describe, expect, it } from 'vitest'
import { planFilter, planLogStream, readKill } from '../../lib/requests/logs.js'

describe('planLogStream', () => {
  it('follows the whole log as text by default', () => {
    expect(planLogStream(undefined, 'output')).toEqual({
      cursor: 0,
      follow: true,
      signal: undefined,
      encoding: 'utf8',
    })
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
})
