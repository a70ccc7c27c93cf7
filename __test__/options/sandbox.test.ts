import os from 'node:os'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { planSandbox, planSession } from '../../lib/backends/native/plan/sandbox.js'
import { isolation } from '../../lib/calls/isolation.js'
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
    const { config } = planSandbox({ cwd: 'a/../b', stateDir: new URL('file:///x%20y/z') })
    expect(config.cwd).toBe(path.join(process.cwd(), 'b'))
    expect(config.stateDir).toBe('/x y/z')
  })

  it('takes console as a logger', () => {
    expect(planSandbox({ logger: console }).config.log).toBe(true)
  })
})

describe('isolation in the root directory', () => {
  const env = { names: [], values: [] }
  const root = { cwd: '/', homes: () => ['/home'], isolation: undefined, env }
  const session = (rules: unknown, base: Parameters<typeof planSession>[1] = root) =>
    planSession({ isolation: isolation.read(rules, 'isolation') }, base, () => 'id').isolation
  const refusal =
    /^isolation lets programs write below the sandbox's cwd, which is '\/', and so everywhere: set cwd to/

  it.each(['workspace', 'workspace+network', {}, { filesystem: { write: ['/tmp', '.'] } }])(
    'is refused with the rules %j, which allow every write',
    (rules) => {
      const { code, message } = refusalOf(() => planSandbox({ cwd: '/', isolation: rules }))
      expect([code, message]).toEqual(['INVALID_OPTION', expect.stringMatching(refusal)])
      expect(refusalOf(() => session(rules)).message).toMatch(refusal)
    },
  )

  it.each(['./', '..', '../.', 'proc/..', './/'])(
    'is refused with the path %j, which is the root, too',
    (file) => {
      const rules = { filesystem: { write: ['/tmp', file] } }
      const message = `isolation lets programs write below "${file}" of the sandbox's cwd, which is '/', and so everywhere: set`
      expect(refusalOf(() => planSandbox({ cwd: '/', isolation: rules })).message).toContain(message)
      expect(refusalOf(() => session(rules)).message).toContain(message)
      const above = refusalOf(() =>
        planSandbox({ cwd: '/tmp', isolation: { filesystem: { write: ['..'] } } }),
      )
      expect(above.message).toContain('below ".." of the sandbox')
    },
  )

  it.each(['read-only', { filesystem: { write: ['/tmp'] } }, { filesystem: { write: ['/'] } }])(
    'is possible with the rules %j, which say what programs may write',
    (rules) => {
      expect(planSandbox({ cwd: '/', isolation: rules }).config.isolation).toBeDefined()
      expect(session(rules)).toBeDefined()
    },
  )

  it('is no question for a session of an isolated sandbox, whose rules still hold', () => {
    const outer = planSandbox({ cwd: '/', isolation: 'read-only' }).config.isolation
    expect(session({ network: 'none' }, { ...root, isolation: outer })?.write).toEqual([])
  })
})

describe('planSession', () => {
  const fresh = () => 'fresh'
  const env = { names: [], values: [] }
  const base = { cwd: '/base', homes: () => ['/home'], isolation: undefined, env }

  it('makes up an id and leaves the rest to the sandbox', () => {
    expect(planSession({}, base, fresh)).toEqual({ sessionId: 'fresh' })
  })

  it("resolves cwd against the sandbox's", () => {
    expect(planSession({ cwd: 'x' }, base, fresh).cwd).toBe('/base/x')
    expect(planSession({ cwd: '/y' }, base, fresh).cwd).toBe('/y')
  })
})
