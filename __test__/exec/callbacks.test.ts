import type { ExecResult } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

describe('callbacks', () => {
  it('receive the start, the output and the end, in order', () =>
    withSandbox(async ({ sandbox }) => {
      const seen: string[] = []
      const result = await sandbox.exec('echo $$; echo err >&2', {
        onStart: ({ pid, command, sessionId }) => seen.push(`start ${pid} ${command} ${sessionId}`),
        onOutput: (stream, data) => seen.push(`${stream} ${data}`),
        onComplete: ({ exitCode }) => seen.push(`complete ${exitCode}`),
        onError: () => seen.push('error'),
      })
      const pid = result.stdout.trim()
      expect(seen[0]).toBe(`start ${pid} echo $$; echo err >&2 default`)
      expect(seen.at(-1)).toBe('complete 0')
      expect(seen.slice(1, -1).sort()).toEqual(['stderr err\n', `stdout ${pid}\n`])
    }))

  it('get output while the command runs', () =>
    withSandbox(async ({ sandbox }) => {
      let seen = ''
      const run = sandbox.exec('echo first; while [ ! -e go ]; do sleep 0.01; done; echo second', {
        onOutput: (_, data) => {
          seen += data
        },
      })
      await until(
        () => seen === 'first\n' || undefined,
        () => `seen: ${seen}`,
      )
      await sandbox.createSession({ id: 'other' }).then((other) => other.exec('touch go'))
      await run
      expect(seen).toBe('first\nsecond\n')
    }))

  it('get characters whole, and the same text as the result', () =>
    withSandbox(async ({ sandbox }) => {
      const pieces: string[] = []
      const command = "printf '\\xe2'; sleep 0.05; printf '\\x82'; sleep 0.05; printf '\\xac\\xff\\xc3'"
      const { stdout } = await sandbox.exec(command, { onOutput: (_, data) => pieces.push(data) })
      expect(stdout).toBe('€\ufffd\ufffd')
      expect(pieces.join('')).toBe(stdout)
      expect(pieces.filter((piece) => piece === '')).toEqual([])
    }))

  it('get every byte of megabytes, although the engine waits for them every 64 pieces', () =>
    withSandbox(async ({ sandbox }) => {
      let length = 0
      const options = {
        maxBuffer: 1000,
        onOutput: (_: string, data: string) => {
          length += data.length
        },
      }
      const { truncated } = await sandbox.exec('head -c 20000000 /dev/zero', options)
      expect(length).toBe(20_000_000)
      expect(truncated).toEqual({ stdout: 19_999_000, stderr: 0 })
    }))

  for (const name of ['onStart', 'onOutput'] as const) {
    it(`that throw in ${name} kill the command and reject exec with their exception`, () =>
      withSandbox(async ({ sandbox }) => {
        const error = new Error(`thrown in ${name}`)
        const reports: unknown[] = []
        const callback = () => {
          throw error
        }
        const options = { [name]: callback, onError: (reported: unknown) => reports.push(reported) }
        expect(await rejectionOf(sandbox.exec('echo x; sleep 60', options))).toBe(error)
        expect(reports).toEqual([error])
      }))
  }

  it('that throw in onComplete reject exec with their exception', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('thrown in onComplete')
      const onComplete = (_: ExecResult) => {
        throw error
      }
      expect(await rejectionOf(sandbox.exec('true', { onComplete }))).toBe(error)
    }))

  it('that throw in onError are logged, and exec rejects with the first error', async () => {
    const warnings: string[] = []
    const nothing = () => {}
    const logger = {
      debug: nothing,
      info: nothing,
      warn: (text: string) => warnings.push(text),
      error: nothing,
    }
    await withSandbox(
      async ({ sandbox }) => {
        const onError = () => {
          throw new Error('the second')
        }
        const rejection = await rejectionOf(sandbox.exec('false', { check: true, onError }))
        expect(rejection).toMatchObject({ code: 'COMMAND_FAILED' })
      },
      { options: { logger } },
    )
    expect(warnings).toContain('onError threw: Error: the second')
  })
})
