/** The code interpreter of the official SDK of Daytona. */
import { DaytonaNotFoundError, DaytonaTimeoutError } from '@daytonaio/sdk'
import { expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { withDaytonaSandbox } from './daytona-place.js'

it('keeps its state, and passes output and errors on as they arrive', () =>
  withDaytonaSandbox(async ({ codeInterpreter }) => {
    expect(await codeInterpreter.runCode('import os; x = 20')).toEqual({ stdout: '', stderr: '' })
    const pieces: string[] = []
    const code = 'import sys; print(x + 1, os.environ["A"]); print("ü", file=sys.stderr); 1 / 0'
    const run = await codeInterpreter.runCode(code, {
      envs: { A: 'b' },
      onStdout: ({ output }) => {
        pieces.push(output)
      },
      onError: ({ name }) => {
        pieces.push(name)
      },
    })
    expect(run).toMatchObject({ stdout: '21 b\n', stderr: 'ü\n', error: { name: 'ZeroDivisionError' } })
    expect(pieces).toEqual(['21 b\n', 'ZeroDivisionError'])
  }))

it('has contexts of its own, which are listed and deleted', () =>
  withDaytonaSandbox(async ({ codeInterpreter }) => {
    await codeInterpreter.runCode('x = 1')
    const context = await codeInterpreter.createContext('/tmp')
    expect(context).toMatchObject({ language: 'python', cwd: '/tmp' })
    const run = await codeInterpreter.runCode('import os; print(os.getcwd(), "x" in globals())', { context })
    expect(run.stdout).toBe('/tmp False\n')
    expect((await codeInterpreter.listContexts()).map(({ id }) => id)).toEqual([context.id])
    await codeInterpreter.deleteContext(context)
    expect(await codeInterpreter.listContexts()).toEqual([])
    expect(await rejectionOf(codeInterpreter.deleteContext(context))).toBeInstanceOf(DaytonaNotFoundError)
    const gone = await rejectionOf(codeInterpreter.runCode('1', { context }))
    expect(gone.message).toContain('there is no context')
  }))

it('interrupts code whose time is up, and keeps its state', () =>
  withDaytonaSandbox(async ({ codeInterpreter }) => {
    await codeInterpreter.runCode('x = 1')
    const late = codeInterpreter.runCode('while True: pass', { timeout: 1 })
    expect(await rejectionOf(late)).toBeInstanceOf(DaytonaTimeoutError)
    expect((await codeInterpreter.runCode('print(x)')).stdout).toBe('1\n')
  }))

it('ends with its sandbox, and starts anew', () =>
  withDaytonaSandbox(async (sandbox) => {
    let output = ''
    const options = {
      onStdout: (message: { output: string }) => {
        output += message.output
      },
    }
    const code = 'x = 1; print("started")\nwhile True: pass'
    const running = rejectionOf(sandbox.codeInterpreter.runCode(code, options))
    await until(
      () => output === 'started\n' || undefined,
      () => output,
    )
    await sandbox.codeInterpreter.createContext()
    await sandbox.stop()
    expect((await running).message).toContain('1006')
    await sandbox.start()
    expect(await sandbox.codeInterpreter.listContexts()).toEqual([])
    expect((await sandbox.codeInterpreter.runCode('print("x" in globals())')).stdout).toBe('False\n')
  }))
