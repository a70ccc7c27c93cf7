import { describe, expect, it } from 'vitest'
import { planProcess } from '../../lib/backends/native/plan/process.js'
import { planSandbox } from '../../lib/backends/native/plan/sandbox.js'
import { KnownSecrets } from '../../lib/backends/native/secrets.js'
import { readProcess } from '../../lib/requests/process.js'

const plan = planSandbox({ timeout: 5000, killSignal: 'SIGINT', forceKillAfterDelay: 7 })
const defaults = { ...plan.defaults, secrets: new KnownSecrets() }
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
      ipc: false,
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
})
