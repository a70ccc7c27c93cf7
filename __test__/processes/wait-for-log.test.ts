import { describe, expect } from 'vitest'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf } from '../helpers/thrown.js'

describe('waitForLog', () => {
  itInSandbox('finds lines, also those without an end', async ({ sandbox }) => {
    const cases: Array<[command: string, pattern: string | RegExp, line: string]> = [
      ['echo a first line; sleep 60', 'first', 'a first line'],
      ['echo first; sleep 0.1; echo server is ready now >&2; sleep 60', 'ready', 'server is ready now'],
      // A prompt, once it is quiet.
      ["echo welcome; printf 'login: '; sleep 60", /^login: $/, 'login: '],
      // Lines of the two streams are not put together.
      ['printf re; printf x >&2; printf ady; sleep 0.01; echo; exit', 'ready', 'ready'],
      ["printf 'one\\r\\ntwo'", /^one$/, 'one'],
      ["printf 'one\\r\\ntwo'", /^two$/, 'two'],
    ]
    for (const [command, pattern, line] of cases) {
      const process = await sandbox.startProcess(command)
      expect(await process.waitForLog(pattern), command).toMatchObject({ line })
      expect(process.status === 'running' || !command.endsWith('sleep 60')).toBe(true)
    }
  })

  itInSandbox('finds a pattern that is split over pieces, whole', async ({ sandbox }) => {
    // A piece that is quiet for 50 ms counts as a line. On a busy machine some are, but not all.
    const pieces = "printf 'on po'; sleep 0.02; printf 'rt 8'; sleep 0.02; printf '080\\n'"
    const process = await sandbox.startProcess(`while :; do ${pieces}; done`)
    const [number, word] = await Promise.all([
      process.waitForLog(/port (?<port>\d{4})$/g),
      process.waitForLog('port 8080'),
    ])
    expect(word).toEqual({ line: 'on port 8080' })
    const { line, match } = number
    expect([line, match?.[1], match?.groups?.port]).toEqual(['on port 8080', '8080', '8080'])
  })

  itInSandbox('finds lines that come, from a cursor on', async ({ sandbox }) => {
    const process = await sandbox.startProcess('cat', { input: 'pipe' })
    await process.write('same 1\n')
    for (let round = 0; round < 2; round++)
      expect(await process.waitForLog('same')).toEqual({ line: 'same 1' })
    const second = process.waitForLog('same', { cursor: 7 })
    await process.write('same 2\n')
    expect((await second).line).toBe('same 2')
  })

  itInSandbox('rejects with the end of the log', async ({ sandbox }) => {
    const failing = await sandbox.startProcess('echo trying; echo no such config >&2; sleep 0.05; exit 3')
    const early = await rejectionOf(failing.waitForLog('ready', { timeout: 5000 }))
    expect(early).toMatchObject({ name: 'SandboxError', code: 'PROCESS_EXITED_BEFORE_READY' })
    expect(tailOf(early).split('\n').sort()).toEqual(['', 'no such config', 'trying'])
    expect(early.message).toContain('ended with exit code 3 before a line of its log had "ready"')
    expect(early.message).toContain('no such config')
    expect(Object.keys(early)).not.toContain('logTail')
    expect(await rejectionOf(failing.waitForLog('ready'))).toMatchObject({
      code: 'PROCESS_EXITED_BEFORE_READY',
    })

    const running = await sandbox.startProcess('echo hello; sleep 60')
    await running.waitForLog('hello')
    const late = await rejectionOf(running.waitForLog(/ready/, { timeout: 30 }))
    expect(late).toMatchObject({ code: 'PROCESS_READY_TIMEOUT', logTail: 'hello\n' })
    expect(late.message).toContain('30 ms passed before a line of its log had /ready/')
    expect(running.status).toBe('running')

    const long = await sandbox.startProcess('seq 1 100000')
    const tail = tailOf(await rejectionOf(long.waitForLog('ready')))
    expect(tail.length).toBeLessThan(5000)
    expect(tail).toMatch(/^\d{5,6}\n(.*\n)*99999\n100000\n$/)
  })

  itInSandbox('finds a line behind megabytes of one without an end', async ({ sandbox }) => {
    const command =
      "head -c 20000000 /dev/zero | tr '\\0' x; printf needle; head -c 3000000 /dev/zero | tr '\\0' x"
    const process = await sandbox.startProcess(command)
    const { line } = await process.waitForLog(/need(le)/)
    expect(line).toContain('needle')
    expect(line.length).toBeLessThan(2_000_000)
  })
})

function tailOf(error: Error): string {
  return (error as { logTail?: string }).logTail ?? ''
}
