import { describe, expect, it } from 'vitest'
import { readService } from '../../lib/requests/service.js'
import { refusalOf } from '../helpers/thrown.js'

const plan = (options: unknown) => readService('serve', options)

describe('readService', () => {
  it('has the documented defaults', () => {
    const { process, ...rest } = plan({ healthCheck: { port: 80 }, sessionId: 'a' })
    expect(process).toMatchObject({ command: { text: 'serve' }, sessionId: 'a', values: {} })
    expect(rest).toEqual({
      healthCheck: { kind: 'port', probe: { port: 80, http: undefined, interval: 100 }, timeout: 30_000 },
      restart: 'never',
      restartDelay: 500,
    })
  })

  it('knows the three kinds of health checks', () => {
    expect(plan({ healthCheck: { port: 80, path: '/x', timeout: 5 } }).healthCheck).toMatchObject({
      kind: 'port',
      probe: { http: { path: '/x' } },
      timeout: 5,
    })
    expect(plan({ healthCheck: { log: /ready/ } }).healthCheck).toMatchObject({
      kind: 'log',
      timeout: 30_000,
    })
    expect(plan({ healthCheck: { command: ['test', '-e', 'a b'], interval: 7 } }).healthCheck).toEqual({
      kind: 'command',
      command: { argv: ['test', '-e', 'a b'] },
      shown: "test -e 'a b'",
      interval: 7,
      timeout: 30_000,
    })
  })

  const bad: Array<[unknown, string]> = [
    [undefined, 'healthCheck must be given'],
    [{}, 'healthCheck must be given'],
    [{ healthCheck: 80 }, 'healthCheck must be { port }'],
    [{ healthCheck: {} }, 'exactly one of port, log and command'],
    [{ healthCheck: { prt: 1 } }, 'healthCheck has no option "prt"; did you mean "port"? It has: port, log'],
    [{ healthCheck: { port: 80, log: 'x' } }, 'exactly one of port, log and command'],
    [{ healthCheck: { port: 0 } }, 'healthCheck.port must be'],
    [{ healthCheck: { log: 'x', interval: 5 } }, 'healthCheck has no option "interval"'],
    [{ healthCheck: { command: 'x', timeout: -1 } }, 'healthCheck.timeout must be'],
  ]
  for (const [options, mentions] of bad) {
    it(`refuses ${JSON.stringify(options)}`, () => {
      expect(refusalOf(() => plan(options)).message).toContain(mentions)
    })
  }
})
