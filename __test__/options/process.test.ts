import { describe, expect, it } from 'vitest'
import { planProcess } from '../../lib/backends/native/plan/process.js'
import { planSandbox } from '../../lib/backends/native/plan/sandbox.js'
import { readProcess } from '../../lib/requests/process.js'
import { refusalOf } from '../helpers/thrown.js'

const { defaults } = planSandbox({ timeout: 5000, killSignal: 'SIGINT', forceKillAfterDelay: 7 })
const request = (options?: object) => planProcess(readProcess('sleep 1', options), defaults).request

describe('the plan of a process', () => {
  it('has the documented defaults: a timeout of the sandbox is not for processes', () => {
    expect(request()).toEqual({
      processId: expect.stringMatching(/^proc-[0-9a-f]{10}$/),
      sessionId: 'default',
      text: 'sleep 1',
      command: 'sleep 1',
      timeout: 0,
      killSignal: 2,
      forceKillAfterDelay: 7,
      input: 'none',
      mergeOutput: false,
      logLimit: 67_108_864,
      autoCleanup: true,
    })
  })

  it('makes up another id each time', () => {
    expect(new Set(Array.from({ length: 1000 }, () => request().processId)).size).toBe(1000)
  })

  it('takes argument lists and shows them quoted', () => {
    const { request: given } = planProcess(readProcess(['echo', 'a b'], { processId: 'p' }, 's'), defaults)
    expect(given).toMatchObject({
      argv: ['echo', 'a b'],
      command: "echo 'a b'",
      sessionId: 's',
      processId: 'p',
    })
  })

  it('distinguishes the kinds of input', () => {
    expect(request({ input: 'x' })).toMatchObject({
      input: 'bytes',
      inputBytes: new TextEncoder().encode('x'),
    })
    expect(request({ input: new TextEncoder().encode('pipe') })).toMatchObject({ input: 'bytes' })
    expect(request({ input: 'pipe' })).toMatchObject({ input: 'open', inputBytes: undefined })
    const source = new Blob(['x']).stream()
    const plan = planProcess(readProcess('cat', { input: source }), defaults)
    expect([plan.request.input, plan.source]).toEqual(['open', source])
  })

  it('reads limits and terminals, and leaves empty limits out', () => {
    const limits = { memory: 1, cpus: 0.5, pids: 2, openFiles: 3 }
    expect(request({ limits, pty: { cols: 80, rows: 24 } })).toMatchObject({
      limits,
      pty: { cols: 80, rows: 24 },
    })
    expect(request({ limits: { memory: undefined } }).limits).toBe(undefined)
  })

  const bad: Array<[object, string, string]> = [
    [{ processId: '../x' }, 'INVALID_ID', 'processId'],
    [{ processId: '' }, 'INVALID_ID', 'processId'],
    [{ processId: 'x'.repeat(129) }, 'INVALID_ID', 'processId'],
    [{ sessionId: 'a/b' }, 'INVALID_ID', 'sessionId'],
    [{ timeout: -1 }, 'INVALID_OPTION', 'timeout'],
    [{ timeout: 2 ** 31 }, 'INVALID_OPTION', '2147483647'],
    [{ killSignal: 0 }, 'INVALID_OPTION', '1 to 64'],
    [{ input: 5 }, 'INVALID_OPTION', 'input'],
    [{ logLimit: 0.5 }, 'INVALID_OPTION', 'logLimit'],
    [{ autoCleanup: 1 }, 'INVALID_OPTION', 'autoCleanup'],
    [{ onExit: 'x' }, 'INVALID_OPTION', 'onExit'],
    [{ limits: 5 }, 'INVALID_OPTION', 'limits must be an object'],
    [{ limits: { memory: 0 } }, 'INVALID_OPTION', 'limits.memory must be a whole number from 1'],
    [{ limits: { cpus: 0 } }, 'INVALID_OPTION', 'limits.cpus'],
    [{ limits: { cpus: Infinity } }, 'INVALID_OPTION', 'limits.cpus'],
    [{ limits: { pids: 2 ** 32 } }, 'INVALID_OPTION', 'limits.pids'],
    [{ limits: { files: 1 } }, 'INVALID_OPTION', 'limits has no option "files"'],
    [{ pty: { cols: 80 } }, 'INVALID_OPTION', 'pty must have both'],
    [{ pty: { cols: 0, rows: 1 } }, 'INVALID_OPTION', 'pty.cols'],
    [{ env: { 'A=B': 'x' } }, 'INVALID_ENV_NAME', '"A=B"'],
    [{ encoding: 'utf8' }, 'INVALID_OPTION', 'startProcess has no option "encoding"'],
  ]
  for (const [options, code, mentions] of bad) {
    it(`refuses ${JSON.stringify(options).slice(0, 60)}`, () => {
      const error = refusalOf(() => request(options))
      expect(error.code).toBe(code)
      expect(error.message).toContain(mentions)
    })
  }

  it('refuses a sessionId where the session is given, and bad commands', () => {
    expect(refusalOf(() => readProcess('x', { sessionId: 'a' }, 's')).message).toContain(
      'session.startProcess has no option "sessionId"',
    )
    expect(refusalOf(() => readProcess(' ', undefined)).code).toBe('INVALID_COMMAND')
  })
})
