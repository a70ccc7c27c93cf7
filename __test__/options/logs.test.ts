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
  it('takes one status or several', () => {
    expect(planFilter(undefined)).toEqual({})
    expect(planFilter({ status: 'running' }).status).toEqual(new Set(['running']))
    expect(planFilter({ status: ['completed', 'killed'], sessionId: 'a' })).toEqual({
      status: new Set(['completed', 'killed']),
      sessionId: 'a',
    })
  })
})
