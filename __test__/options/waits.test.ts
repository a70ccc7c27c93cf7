import { describe, expect, it } from 'vitest'
import { planWait, planWaitForLog, planWaitForPort } from '../../lib/requests/waits.js'
import { refusalOf } from '../helpers/thrown.js'

describe('planWait', () => {
  it('waits forever by default', () => {
    expect(planWait(undefined)).toEqual({ timeout: 0, signal: undefined })
  })

  it('refuses text with the unit of a number', () => {
    const { message } = refusalOf(() => planWait('10'))
    expect(message).toMatch(/^timeout must be a number of milliseconds from 0 .*, not "10"; 10 seconds are /)
  })
})

describe('planWaitForLog', () => {
  it('keeps text as it is', () => {
    const { pattern } = planWaitForLog('re.dy', undefined)
    expect(pattern).toMatchObject({ source: 're.dy', wanted: { isText: true, pattern: 're.dy' }, names: [] })
  })

  it('gives the engine every character of an expression as a number, and ignores case itself', () => {
    const { pattern } = planWaitForLog(/A-(?<n>\d)$/giy, undefined)
    expect(pattern).toMatchObject({
      wanted: { isText: false, pattern: '[\\x{41}-\\x{41}\\x{61}-\\x{61}]\\x{2d}([\\x{30}-\\x{39}])$' },
      names: ['n'],
    })
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
