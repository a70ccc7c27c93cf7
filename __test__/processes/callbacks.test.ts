import type { Process } from 'nacre'
import { expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { kill } from '../helpers/proc.js'
import { itInSandbox } from '../helpers/sandbox-test.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** Waits until this has been reported. */
function reported(list: string[], text: string): Promise<boolean> {
  return until(
    () => list.some((item) => item.startsWith(text)) || undefined,
    () => `reported: ${list.join()}`,
  )
}

itInSandbox('callbacks and calls give one object for one process', async ({ sandbox }) => {
  let given: Process | undefined
  const onStart = (process: Process) => {
    given = process
  }
  const process = await sandbox.startProcess('sleep 60', { onStart })
  expect(given).toBe(process)
  expect(await sandbox.getProcess(process.id)).toBe(process)
  expect((await sandbox.listProcesses())[0]).toBe(process)
})

itInSandbox('callbacks get characters whole and every byte of much output', async ({ sandbox }) => {
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
})

it('callbacks report errors that nothing else receives to the logger', async () => {
  const warnings: string[] = []
  const nothing = () => {}
  const warn = (text: string) => warnings.push(text)
  const logger = { debug: nothing, info: nothing, warn, error: nothing }
  await withSandbox(
    async ({ sandbox }) => {
      const onExit = () => {
        throw new Error('unheard')
      }
      await sandbox.startProcess('true', { onExit })
      await reported(warnings, 'a callback of a process threw: Error: unheard')
      for (const [call, code] of [
        [sandbox.startProcess.bind(sandbox, 'true', { cwd: '/none', onError: throwing }), 'CWD_NOT_FOUND'],
        [sandbox.exec.bind(sandbox, 'false', { check: true, onError: throwing }), 'COMMAND_FAILED'],
      ] as const) {
        warnings.length = 0
        expect(await rejectionOf(call())).toMatchObject({ code })
        await reported(warnings, 'onError threw: Error: the second')
      }
    },
    { options: { logger } },
  )
})

function throwing(): never {
  throw new Error('the second')
}

itInSandbox(
  'onError is called when the process is lost, also without other callbacks',
  async ({ sandbox }) => {
    const errors: string[] = []
    const { stdout } = await sandbox.exec('echo $PPID')
    const process = await sandbox.startProcess('sleep 60', {
      processId: 'one',
      onError: (error) => errors.push((error as Error).message),
    })
    kill(Number(stdout))
    await process.waitForExit()
    expect(process.status).toBe('error')
    await reported(errors, "process 'one' was lost")
  },
)
