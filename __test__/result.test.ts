import { describe, expect, it } from 'vitest'
import type { RunEnd } from '../lib/backends/native/engine-run.js'
import { planExec } from '../lib/backends/native/plan/exec.js'
import { conclude, stripFinalNewline } from '../lib/backends/native/result.js'
import { KnownSecrets } from '../lib/backends/native/secrets.js'
import { OptionError, SandboxError } from '../lib/base/errors.js'
import type { NativeResult } from '../lib/boundary/index.js'
import { readExec } from '../lib/requests/exec.js'
import { rejectionOf } from './helpers/thrown.js'

const defaults = {
  secrets: new KnownSecrets(),
  timeout: 0,
  maxBuffer: 1024,
  streamMaxBuffer: 512,
  killSignal: 15,
  forceKillAfterDelay: 5000,
}

function native(changes: Partial<NativeResult> = {}): NativeResult {
  return {
    exitCode: 0,
    stdout: '',
    stderr: '',
    cwd: '/app',
    duration: 12.5,
    startedAt: Date.UTC(2026, 0, 2, 3, 4, 5, 6),
    timedOut: false,
    cancelled: false,
    droppedStdout: 0,
    droppedStderr: 0,
    sessionRestarted: false,
    denials: [],
    ...changes,
  }
}

/** Rejects where the function throws. */
async function concludedWith(...[plan, end]: Parameters<typeof conclude>) {
  return conclude(plan, end)
}

function concluded(changes: Partial<NativeResult> = {}, options: object = {}, end: RunEnd = {}) {
  const plan = planExec(readExec('make all', options, 'exec'), defaults)
  return concludedWith(plan, { result: native(changes), ...end })
}

describe('the result', () => {
  it('has the documented fields and no others', async () => {
    expect({ ...(await concluded({ stdout: 'hi\n' })) }).toEqual({
      success: true,
      exitCode: 0,
      signal: null,
      stdout: 'hi\n',
      stderr: '',
      all: 'hi\n',
      command: 'make all',
      sessionId: 'default',
      cwd: '/app',
      duration: 12.5,
      timestamp: '2026-01-02T03:04:05.006Z',
      timedOut: false,
      cancelled: false,
      killedBy: null,
      truncated: null,
      truncatedAt: null,
      sessionRestarted: false,
      denials: [],
    })
  })

  it('distinguishes an exit code from a signal', async () => {
    const coded = await concluded({ exitCode: 3 })
    expect([coded.success, coded.exitCode, coded.signal]).toEqual([false, 3, null])
    const killed = await concluded({ exitCode: undefined, signal: 9 })
    expect([killed.success, killed.exitCode, killed.signal]).toEqual([false, null, 'SIGKILL'])
  })

  it('counts dropped bytes only when there are any', async () => {
    expect((await concluded({ droppedStderr: 7 })).truncated).toEqual({ stdout: 0, stderr: 7 })
  })

  it('decodes text that comes as bytes', async () => {
    const { stdout } = await concluded({ stdout: Buffer.from([0x61, 0xff]) })
    expect(stdout).toBe('a\ufffd')
  })

  it('leaves bytes alone with encoding buffer', async () => {
    const stdout = Buffer.from([0x61, 0xff, 0x0a])
    const stderr = Buffer.alloc(0)
    const result = await concluded({ stdout, stderr }, { encoding: 'buffer' })
    expect(result.stdout).toBe(stdout)
    expect(result.all).toBe(stdout)
  })
})

describe('all', () => {
  const both = { stdout: 'out\n', stderr: 'err\n', order: Uint32Array.of(4, 4) }

  it('is the one stream that has bytes', async () => {
    expect((await concluded({ stdout: 'x' })).all).toBe('x')
    expect((await concluded({ stderr: 'x' })).all).toBe('x')
    expect((await concluded()).all).toBe('')
  })

  it('is both in order of arrival', async () => {
    expect((await concluded(both)).all).toBe('out\nerr\n')
    const bytes = {
      stdout: Buffer.from('out\n'),
      stderr: Buffer.from('err\n'),
      order: Uint32Array.of(0, 4, 4),
    }
    expect((await concluded(bytes, { encoding: 'buffer' })).all).toEqual(Buffer.from('err\nout\n'))
    expect((await concluded(bytes)).all).toBe('err\nout\n')
  })

  it('is computed at the first read, once, and is enumerable', async () => {
    const result = await concluded(both)
    expect(Object.getOwnPropertyDescriptor(result, 'all')?.get).toBeTypeOf('function')
    expect(Object.keys(result)).toContain('all')
    expect(JSON.parse(JSON.stringify(result)).all).toBe('out\nerr\n')
    expect(Object.getOwnPropertyDescriptor(result, 'all')?.value).toBe('out\nerr\n')
  })

  it('loses one final newline with stripFinalNewline', async () => {
    const { stdout, stderr, all } = await concluded(both, { stripFinalNewline: true })
    expect([stdout, stderr, all]).toEqual(['out', 'err', 'out\nerr'])
  })
})

describe('stripFinalNewline', () => {
  for (const [given, kept] of [
    ['', ''],
    ['\n', ''],
    ['a\n', 'a'],
    ['a\r\n', 'a'],
    ['a\n\n', 'a\n'],
    ['a\r', 'a\r'],
    ['\na', '\na'],
  ] as const) {
    it(`makes ${JSON.stringify(kept)} of ${JSON.stringify(given)}, as text and as bytes`, () => {
      expect(stripFinalNewline(given)).toBe(kept)
      expect(stripFinalNewline(Buffer.from(given))).toEqual(Buffer.from(kept))
    })
  }
})

describe('the precedence of errors', () => {
  const signal = AbortSignal.abort('enough')
  const error = { code: 'SESSION_TERMINATED', message: 'the shell was killed' }
  const thrown = { value: new OptionError('INVALID_OPTION', 'bad chunk') }
  const everything = { timedOut: true, cancelled: true, exitCode: 1 }

  it('puts an error of the engine first', async () => {
    const rejection = await rejectionOf(concluded(everything, { check: true, signal }, { error, thrown }))
    expect(rejection).toBeInstanceOf(SandboxError)
    expect(rejection).toMatchObject({ code: 'SESSION_TERMINATED', message: 'the shell was killed' })
    expect((rejection as SandboxError).result?.exitCode).toBe(1)
  })

  it('then the exception of the caller, unchanged', async () => {
    expect(await rejectionOf(concluded(everything, { check: true }, { thrown }))).toBe(thrown.value)
  })

  it('then the timeout', async () => {
    const rejection = await rejectionOf(concluded(everything, { check: true, timeout: 500 }))
    expect(rejection).toMatchObject({ name: 'SandboxError', code: 'COMMAND_TIMEOUT' })
    expect(rejection.message).toBe('`make all` ran longer than its timeout of 500 ms and ended after 13 ms')
    expect((rejection as SandboxError).result?.timedOut).toBe(true)
  })

  it('then the abort, with its reason', async () => {
    const controller = new AbortController()
    controller.abort('enough')
    const options = { check: true, signal: controller.signal }
    const rejection = await rejectionOf(concluded({ cancelled: true, stdout: 'x' }, options))
    expect(rejection).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR', cause: 'enough' })
    expect((rejection as SandboxError).result?.stdout).toBe('x')
  })

  it('then the failed check, with the code or the signal', async () => {
    const coded = await rejectionOf(concluded({ exitCode: 2 }, { check: true }))
    expect(coded).toMatchObject({
      code: 'COMMAND_FAILED',
      message: '`make all` ended with exit code 2 after 13 ms',
    })
    const killed = await rejectionOf(concluded({ exitCode: undefined, signal: 15 }, { check: true }))
    expect(killed.message).toBe('`make all` was ended by SIGTERM after 13 ms')
    expect((await concluded({}, { check: true })).success).toBe(true)
  })

  it('has the last lines of stderr in its message, and one sentence without them', async () => {
    const stderr = Array.from({ length: 30 }, (_, at) => `error ${at}\n`).join('')
    const rejection = (await rejectionOf(concluded({ exitCode: 2, stderr }, { check: true }))) as SandboxError
    const sentence = '`make all` ended with exit code 2 after 13 ms'
    expect(rejection.shortMessage).toBe(sentence)
    expect(rejection.message).toBe(`${sentence}\n${stderr.trimEnd().split('\n').slice(-10).join('\n')}`)
    const long = Buffer.from(`${'x'.repeat(5000)}\nlast`)
    const bytes = { encoding: 'buffer', check: true }
    const cut = await rejectionOf(concluded({ exitCode: 2, stdout: Buffer.alloc(0), stderr: long }, bytes))
    expect(cut.message).toBe(`${sentence}\nlast`)
  })

  it('calls an unknown code of the engine an engine error, and has a sentence for each known one', async () => {
    for (const code of ['NONSENSE', 'toString', undefined]) {
      const rejection = await rejectionOf(concluded({}, {}, { error: { code, message: undefined } }))
      expect(rejection).toMatchObject({ code: 'ENGINE_ERROR', message: 'the engine failed' })
    }
  })

  it('keeps the result out of a printed error', async () => {
    const rejection = await rejectionOf(concluded({ exitCode: 1, stdout: 'secret' }, { check: true }))
    expect(Object.keys(rejection)).toEqual(['code', 'kind'])
    const bare = await rejectionOf(concludedWith(planExec(readExec('x', {}, 'exec'), defaults), { error }))
    expect(Object.hasOwn(bare, 'result')).toBe(false)
  })
})
