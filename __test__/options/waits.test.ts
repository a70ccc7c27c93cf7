import { describe, expect, it } from 'vitest'
import { planWait, planWaitForLog, planWaitForPort } from '../../lib/requests/waits.js'
import { refusalOf } from '../helpers/thrown.js'

describe('planWait', () => {
  it('waits forever by default', () => {
    expect(planWait(undefined, 'wait')).toEqual({ timeout: 0, signal: undefined })
  })
})

describe('planWaitForLog', () => {
  it('finds text anywhere in a line', () => {
    const { pattern } = planWaitForLog('ready', undefined)
    expect(pattern.find('is ready now')).toEqual({ line: 'is ready now' })
    expect(pattern.find('not yet')).toBe(undefined)
  })

  it('finds expressions anew each time, whatever their flags', () => {
    const { pattern } = planWaitForLog(/PORT (\d+)/giy, undefined)
    for (let time = 0; time < 3; time++) {
      const found = pattern.find('on port 80')
      expect([found?.line, found?.match?.[1]]).toEqual(['on port 80', '80'])
    }
  })
})

describe('planWaitForPort', () => {
  const plan = (options?: object) => planWaitForPort(80, options)

  it('requests a page only when an option asks for it', () => {
    expect(plan()).toEqual({ port: 80, http: undefined, interval: 100, timeout: 0, signal: undefined })
    expect(plan({ mode: 'http' }).http).toEqual({ path: '/', status: { min: 200, max: 399 } })
    expect(plan({ path: '/health?x=1' }).http).toEqual({
      path: '/health?x=1',
      status: { min: 200, max: 399 },
    })
    expect(plan({ status: 404 }).http).toEqual({ path: '/', status: { min: 404, max: 404 } })
    expect(plan({ status: { max: 299 } }).http?.status).toEqual({ min: 100, max: 299 })
  })

  it('refuses a path where no page is requested', () => {
    expect(refusalOf(() => plan({ mode: 'tcp', path: '/' })).message).toContain("need mode 'http'")
  })
})
