import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { planSandbox, planSession } from '../../lib/backends/native/plan/sandbox.js'
import { refusalOf } from '../helpers/thrown.js'

describe('planSandbox', () => {
  it('has the documented defaults', () => {
    const { config, defaults, logger } = planSandbox(undefined)
    expect(config.cwd).toBe(process.cwd())
    expect(config.shell).toBe(undefined)
    expect(config.surviveExit).toBe(true)
    expect(config.stateDir).toBe(path.join(os.tmpdir(), `nacre-${process.getuid?.()}`))
    expect(config.log).toBe(false)
    expect(logger).toBe(undefined)
    expect(defaults).toEqual({
      timeout: 0,
      maxBuffer: 67_108_864,
      streamMaxBuffer: 8_388_608,
      killSignal: 15,
      forceKillAfterDelay: 5000,
    })
  })

  it('makes paths absolute', () => {
    const { config } = planSandbox({ cwd: 'a/../b', stateDir: new URL('file:///x/y') })
    expect(config.cwd).toBe(path.join(process.cwd(), 'b'))
    expect(config.stateDir).toBe('/x/y')
  })

  it('takes console as a logger and refuses less', () => {
    expect(planSandbox({ logger: console }).config.log).toBe(true)
    for (const logger of [null, {}, () => {}, { debug() {}, info() {}, warn() {} }]) {
      expect(refusalOf(() => planSandbox({ logger })).message).toMatch(/^logger must have the methods/)
    }
  })
})

describe('planSession', () => {
  const fresh = () => 'fresh'
  const base = { cwd: '/base', homes: () => ['/home'], isolation: undefined }

  it('makes up an id and leaves the rest to the sandbox', () => {
    expect(planSession({}, base, fresh)).toEqual({ sessionId: 'fresh' })
  })

  it("resolves cwd against the sandbox's", () => {
    expect(planSession({ cwd: 'x' }, base, fresh).cwd).toBe('/base/x')
    expect(planSession({ cwd: '/y' }, base, fresh).cwd).toBe('/y')
  })
})
