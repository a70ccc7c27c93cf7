import type { Process } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { commandLine, kill } from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Waits until the last of the callbacks has been called. */
function reported(list: string[], last: string): Promise<boolean> {
  return until(
    () => list.some((item) => item.startsWith(last)) || undefined,
    () => `reported: ${list.join()}`,
  )
}

describe('callbacks', () => {
  it('receive the start, the output in order, and last the end', () =>
    withSandbox(async ({ sandbox }) => {
      const seen: string[] = []
      // Each line is printed when the one before has come: only then is their order sure.
      const process = await sandbox.startProcess(
        'echo one; read -r _; echo two >&2; read -r _; echo three; exit 3',
        {
          input: 'pipe',
          onStart: ({ pid, state: status }) => seen.push(`start ${pid > 1} ${status}`),
          onOutput: (stream, data) => seen.push(`${stream} ${data.trim()}`),
          onExit: (exitCode, signal) => seen.push(`exit ${exitCode} ${signal}`),
          onError: () => seen.push('error'),
        },
      )
      expect(seen[0]).toMatch(/^start true (running|failed)$/)
      for (const line of ['stdout one', 'stderr two']) {
        await reported(seen, line)
        await process.write('\n')
      }
      await process.wait()
      await reported(seen, 'exit')
      expect(seen.slice(1)).toEqual(['stdout one', 'stderr two', 'stdout three', 'exit 3 null'])
    }))

  it('receive the process that startProcess resolves to, and may call it immediately', () =>
    withSandbox(async ({ sandbox }) => {
      let given: Process | undefined
      const onStart = (process: Process) => {
        given = process
      }
      const process = await sandbox.startProcess('sleep 60', { onStart })
      expect(given).toBe(process)
      expect(await sandbox.getProcess(process.id)).toBe(process)
    }))

  it('get characters whole and every byte of much output', () =>
    withSandbox(async ({ sandbox }) => {
      let text = ''
      const ended = new Promise((resolve) => {
        void sandbox.startProcess("for ((i = 0; i < 30000; i++)); do echo 'größe €'; done", {
          onOutput: (_, data) => {
            text += data
          },
          onExit: resolve,
        })
      })
      expect(await ended).toBe(0)
      expect(text === 'größe €\n'.repeat(30_000)).toBe(true)
    }))

  it('receive the signal of a kill', () =>
    withSandbox(async ({ sandbox }) => {
      const seen: string[] = []
      const process = await sandbox.startProcess('exec sleep 60', {
        onExit: (exitCode, signal) => seen.push(`exit ${exitCode} ${signal}`),
      })
      await until(
        () => commandLine(process.pid) === 'sleep 60' || undefined,
        () => commandLine(process.pid),
      )
      await process.kill('SIGINT')
      await reported(seen, 'exit')
      expect(seen).toEqual(['exit null SIGINT'])
    }))

  it('that throw in onStart kill the process, and startProcess rejects with their exception', () =>
    withSandbox(async ({ sandbox }) => {
      const error = new Error('thrown in onStart')
      const errors: unknown[] = []
      const options = {
        onStart: () => {
          throw error
        },
        onError: (reported: unknown) => errors.push(reported),
      }
      expect(await rejectionOf(sandbox.startProcess('sleep 60', options))).toBe(error)
      expect(errors).toEqual([error])
      expect((await sandbox.listProcesses()).map(({ state: status }) => status)).toEqual(['killed'])
    }))

  it('that throw in onOutput or onExit tell onError, and the process runs on', () =>
    withSandbox(async ({ sandbox }) => {
      const errors: string[] = []
      let calls = 0
      const process = await sandbox.startProcess('echo one; read -r line; echo two; exit 4', {
        input: 'pipe',
        onOutput: () => {
          calls++
          throw new Error('thrown in onOutput')
        },
        onExit: (exitCode) => {
          throw new Error(`thrown in onExit ${exitCode}`)
        },
        onError: (error) => errors.push((error as Error).message),
      })
      await reported(errors, 'thrown in onOutput')
      expect(process.state).toBe('running')
      await process.write('go\n')
      await reported(errors, 'thrown in onExit')
      expect([calls, errors]).toEqual([1, ['thrown in onOutput', 'thrown in onExit 4']])
    }))

  it('report errors without an onError to the logger', async () => {
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
        await sandbox.startProcess('true', {
          onExit: () => {
            throw new Error('unheard')
          },
        })
        await reported(warnings, 'a callback of a process threw: Error: unheard')
        const onError = () => {
          throw new Error('the second')
        }
        await rejectionOf(sandbox.startProcess('true', { cwd: '/none', onError }))
        await reported(warnings, 'onError threw: Error: the second')
      },
      { options: { logger } },
    )
  })

  it('onError is called when the process is lost, also without other callbacks', () =>
    withSandbox(async ({ sandbox }) => {
      const errors: string[] = []
      const { stdout } = await sandbox.exec('echo $PPID')
      const process = await sandbox.startProcess('sleep 60', {
        processId: 'one',
        onError: (error) => errors.push((error as Error).message),
      })
      kill(Number(stdout))
      await process.wait()
      expect(process.state).toBe('crashed')
      await reported(errors, "process 'one' was lost")
    }))

  it('onError receives the reason of a failed start, but no bad options', () =>
    withSandbox(async ({ sandbox }) => {
      const errors: unknown[] = []
      const onError = (error: unknown) => errors.push(error)
      const error = await rejectionOf(sandbox.startProcess('true', { cwd: '/none', onError }))
      await rejectionOf(sandbox.startProcess('true', { timeout: -1, onError }))
      expect(errors).toEqual([error])
    }))
})
