import { describe, expect, it } from 'vitest'
import { planWait, planWaitForLog, planWaitForPort } from '../../lib/requests/waits.js'
import { refusalOf } from '../helpers/thrown.js'

describe('planWait', () => {
  it('waits forever by default', () => {
    expect(planWait(undefined, 'wait')).toEqual({ timeout: 0, signal: undefined })
  })

  it('refuses other things by name', () => {
    expect(refusalOf(() => planWait({ timeout: '5s' }, 'wait')).message).toContain('timeout must be')
    expect(refusalOf(() => planWait(5, 'wait')).message).toContain('options of wait')
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

  for (const bad of ['', 'a\nb', 5, null, undefined, ['x']]) {
    it(`refuses the pattern ${JSON.stringify(bad)}`, () => {
      expect(refusalOf(() => planWaitForLog(bad, undefined)).message).toMatch(/^pattern must/)
    })
  }

  it('refuses other options by name', () => {
    expect(refusalOf(() => planWaitForLog('x', { cursor: -1 })).message).toContain('cursor must be')
    expect(refusalOf(() => planWaitForLog('x', { interval: 5 })).message).toContain('no option "interval"')
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

  const bad: Array<[object, string]> = [
    [{ mode: 'udp' }, "mode must be 'http' or 'tcp'"],
    [{ mode: 'tcp', path: '/' }, "need mode 'http'"],
    [{ path: 'health' }, 'path must begin with /'],
    [{ path: '/a b' }, 'path must begin with /'],
    [{ path: '/a\r\nX: y' }, 'path must begin with /'],
    [{ status: 99 }, 'status must be a whole number from 100 to 599'],
    [{ status: { min: 300, max: 200 } }, 'status must have a min'],
    [{ status: { least: 300 } }, 'status has no option "least"'],
    [{ interval: 0 }, 'interval must be a number of milliseconds from 1'],
  ]
  for (const [options, mentions] of bad) {
    it(`refuses ${JSON.stringify(options)}`, () => {
      expect(refusalOf(() => plan(options)).message).toContain(mentions)
    })
  }

  it('refuses ports that are none', () => {
    for (const port of [0, 65_536, 1.5, '80', undefined]) {
      expect(refusalOf(() => planWaitForPort(port, undefined)).message).toContain(
        'port must be a whole number from 1 to 65535',
      )
    }
  })
})
