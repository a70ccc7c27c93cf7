/** Whether a process waits for input is known here and over HTTP. */
import { describe, expect } from 'vitest'
import type { Process, ProcessOptions, ProcessWaiting } from '../../index.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { itHolds } from './helper.js'

const TERMINAL: ProcessOptions = { pty: true }
const PIPE: ProcessOptions = { input: 'pipe' }
const NODE = JSON.stringify(process.execPath)

/** What waits for input, once something does. */
function seen(running: Process, state: ProcessWaiting['state'] = 'reading'): Promise<ProcessWaiting> {
  let last: ProcessWaiting | null = null
  return until(
    async () => {
      last = await running.waiting()
      return last?.state === state ? last : undefined
    },
    () => `${running.command}: ${JSON.stringify(last)}`,
  )
}

const READING: Array<[string, ProcessOptions, Partial<ProcessWaiting>]> = [
  ['read -r line', TERMINAL, { how: 'line', program: 'bash', timed: false }],
  ['read -rs secret', TERMINAL, { how: 'secret', program: 'bash' }],
  ['read -rn 1 key', TERMINAL, { how: 'keys', program: 'bash' }],
  ['read -rt 600 line', TERMINAL, { how: 'line', program: 'bash', timed: true }],
  ['bash --norc', TERMINAL, { how: 'keys', program: 'bash' }],
  // What a program prints makes no difference, and another one of the tree may be the one that reads.
  ['sleep 600 & cat', TERMINAL, { how: 'line', program: 'cat' }],
  [`${NODE} -e 'process.stdin.resume()'`, TERMINAL, { how: 'line' }],
  ['cat', PIPE, { how: 'pipe', program: 'cat', timed: false }],
  ['(true; cat) | cat', PIPE, { how: 'pipe', program: 'cat' }],
  [`${NODE} -e 'process.stdin.resume()'`, PIPE, { how: 'pipe' }],
]

const NOT_READING: Array<[string, ProcessOptions]> = [
  ['echo "on: "; sleep 600', TERMINAL],
  ['echo on; while :; do :; done', TERMINAL],
  ['echo on; sleep 600 | cat', TERMINAL],
  // A program in the background of its terminal is stopped when it reads.
  ['set -m; (sleep 600; cat) & echo on; wait', TERMINAL],
  ['echo on; sleep 600', PIPE],
  ['echo on; sleep 600 | cat', PIPE],
  ['exec < <(sleep 600); echo on; cat', PIPE],
  ['echo on; sleep 600', {}],
]

describe('a process', () => {
  itHolds('waits for input when a program reads it', async ({ sandbox }) => {
    for (const [command, options, expected] of READING) {
      const running = await sandbox.startProcess(command, options)
      expect(await seen(running), command).toMatchObject({ sure: true, ...expected })
      await running.kill('SIGKILL')
      expect(await running.waiting(), command).toBeNull()
    }
  })

  itHolds('goes on when it gets its input', async ({ sandbox }) => {
    const running = await sandbox.startProcess('sleep 0.1; read -r a; sleep 600', TERMINAL)
    expect(await running.waitForInput({ timeout: 30_000 })).toMatchObject({ state: 'reading', how: 'line' })
    await running.write('line\n')
    await holds(async () => (await running.waiting()) === null)
    expect(running.status).toBe('running')
    expect(await rejectionOf(running.waitForInput({ timeout: 1 }))).toMatchObject({
      code: 'PROCESS_READY_TIMEOUT',
    })
    const waits = [running.waitForInput(), running.waitForInput({ signal: AbortSignal.abort() })]
    const errors = rejectionsOf(waits)
    await running.kill('SIGKILL')
    expect(await errors).toMatchObject([{ code: 'PROCESS_EXITED_BEFORE_READY' }, { name: 'AbortError' }])
  })

  itHolds('does not wait for input when it does something else', async ({ sandbox }) => {
    for (const [command, options] of NOT_READING) {
      const running = await sandbox.startProcess(command, options)
      await running.waitForLog('on')
      for (let look = 0; look < 3; look++) expect(await running.waiting(), command).toBeNull()
      await running.kill('SIGKILL')
    }
  })

  itHolds('is listening when it waits for something else too', async ({ sandbox }) => {
    const script = `process.stdin.resume(); require('net').createServer().listen(0, () => console.log('on'))`
    const running = await sandbox.startProcess(`${NODE} -e ${JSON.stringify(script)}`, TERMINAL)
    await running.waitForLog('on')
    expect(await seen(running, 'listening')).toMatchObject({ sure: true, how: 'line' })
  })
})
