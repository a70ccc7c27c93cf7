/** The code interpreter, by its official SDK. */
import { type Context, type Execution, Sandbox } from '@e2b/code-interpreter'
import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { type Place, withServer } from './place.js'

const withInterpreter = (test: (sandbox: Sandbox, place: Place) => Promise<void>) =>
  withServer(async (place) =>
    test(await Sandbox.create({ ...place.connection, envs: { NACRE_TEST_TAG: place.tag } }), place),
  )

/** Code that runs until something ends it. */
async function startEndless(sandbox: Sandbox, context?: Context): Promise<{ run: Promise<Execution> }> {
  const code = 'import time\nprint("ready")\ntime.sleep(1000)'
  return new Promise((resolve) => {
    const run = sandbox.runCode(code, { context, onStdout: () => resolve({ run }) })
  })
}

describe('Python', () => {
  it('keeps its state, and the last expression is the result', () =>
    withInterpreter(async (sandbox) => {
      expect((await sandbox.runCode('x = 20\nx + 1')).text).toBe('21')
      expect((await sandbox.runCode('x')).text).toBe('20')
      const run = await sandbox.runCode('y = x')
      expect(run).toMatchObject({ results: [], executionCount: 3 })
      expect((await sandbox.runCode('import asyncio\nawait asyncio.sleep(0)\n"done"')).text).toBe("'done'")
    }))

  it('passes on output, also of other programs, in order', () =>
    withInterpreter(async (sandbox) => {
      const seen: string[] = []
      const { logs } = await sandbox.runCode(
        'import os, sys\nprint("a", flush=True)\nos.system("echo b")\nprint("c", file=sys.stderr)',
        { onStdout: ({ line }) => void seen.push(line) },
      )
      expect(logs.stdout.join('')).toBe('a\nb\n')
      expect(logs.stderr.join('')).toBe('c\n')
      expect(seen.join('')).toBe('a\nb\n')
      const much = await sandbox.runCode('print("x" * 3_000_000)')
      expect(much.logs.stdout.join('').length).toBe(3_000_001)
    }))

  it('shows errors, and goes on', () =>
    withInterpreter(async (sandbox) => {
      const { error } = await sandbox.runCode('def f():\n  return 1 / 0\nf()')
      expect(error).toMatchObject({ name: 'ZeroDivisionError', value: 'division by zero' })
      expect(error?.traceback).toContain('line 2, in f')
      expect(error?.traceback).not.toContain('eval')
      expect((await sandbox.runCode('1 +')).error?.name).toBe('SyntaxError')
      expect((await sandbox.runCode('exit(3)')).error?.name).toBe('SystemExit')
      expect((await sandbox.runCode('f')).text).toContain('<function f')
    }))

  it('shows values in their forms', () =>
    withInterpreter(async (sandbox) => {
      const code = `class Page:
  def _repr_html_(self): return '<b>x</b>'
  def _repr_png_(self): return b'png'
  def __repr__(self): return 'page'
display(Page())
Page()`
      const { results } = await sandbox.runCode(code)
      expect(results).toMatchObject([
        { isMainResult: false, html: '<b>x</b>' },
        { isMainResult: true, text: 'page', html: '<b>x</b>', png: Buffer.from('png').toString('base64') },
      ])
    }))

  it('passes a long line on without a delay that grows with its square', () =>
    withInterpreter(async (sandbox) => {
      // In small pieces, as a progress bar prints.
      const code = 'import sys\nfor _ in range(40000): print("x" * 500, end="", flush=True)\nprint()'
      const { logs } = await sandbox.runCode(code)
      expect(logs.stdout.join('').length).toBe(20_000_001)
    }))

  it('has contexts with a state and a directory of their own, and variables for one run', () =>
    withInterpreter(async (sandbox) => {
      await sandbox.runCode('x = 1')
      const context = await sandbox.createCodeContext({ cwd: '/tmp' })
      expect(context).toMatchObject({ language: 'python', cwd: '/tmp' })
      const envs = { OWN: 'own' }
      const code = 'import os\n[os.getcwd(), "x" in globals(), os.environ.get("OWN")]'
      expect((await sandbox.runCode(code, { context, envs })).text).toBe("['/tmp', False, 'own']")
      expect((await sandbox.runCode(code, { context })).text).toBe("['/tmp', False, None]")
      expect(await sandbox.listCodeContexts()).toHaveLength(2)
      await sandbox.runCode('y = 1', { context })
      await sandbox.restartCodeContext(context)
      expect((await sandbox.runCode('"y" in globals()', { context })).text).toBe('False')
      await sandbox.removeCodeContext(context)
      expect(await rejectionOf(sandbox.runCode('1', { context }))).toBeInstanceOf(Error)
    }))

  it('is interrupted when the client leaves, and keeps its state', () =>
    withInterpreter(async (sandbox) => {
      await sandbox.runCode('import time\nx = 1')
      await rejectionOf(sandbox.runCode('time.sleep(1000)', { timeoutMs: 300 }))
      expect((await sandbox.runCode('x')).text).toBe('1')
    }))

  it('starts anew after its end', () =>
    withInterpreter(async (sandbox) => {
      const { error } = await sandbox.runCode('import os\nos._exit(1)')
      expect(error).toMatchObject({ name: 'KernelDied' })
      expect((await sandbox.runCode('1 + 1')).text).toBe('2')
    }))

  it('starts anew after its end between two runs, and an interrupt there does nothing', () =>
    withInterpreter(async (sandbox) => {
      const { text: pid } = await sandbox.runCode('import os\nos.getpid()')
      await sandbox.commands.run(`kill -INT ${pid}`)
      expect((await sandbox.runCode('os.getpid()')).text).toBe(pid)
      await sandbox.commands.run(`kill -KILL ${pid}; while kill -0 ${pid} 2>&-; do sleep 0.05; done`)
      expect((await sandbox.runCode('1 + 1')).text).toBe('2')
    }))

  it('ends each run while a thread prints', () =>
    withInterpreter(async (sandbox) => {
      const thread = `import threading
def spin():
  while not stop: print("x" * 100)
stop = False
threading.Thread(target=spin).start()`
      const options = { timeoutMs: 10_000 }
      expect((await sandbox.runCode(thread, options)).error).toBeUndefined()
      for (const text of ['1', '2', '3']) expect((await sandbox.runCode(text, options)).text).toBe(text)
      expect((await sandbox.runCode('stop = True\nstop', options)).text).toBe('True')
    }))

  it('ends with its sandbox, and the server goes on', () =>
    withInterpreter(async (sandbox, { connection }) => {
      const unhandled: unknown[] = []
      const note = (error: unknown) => void unhandled.push(error)
      process.on('unhandledRejection', note)
      try {
        const ended = rejectionOf((await startEndless(sandbox)).run)
        await sandbox.kill()
        expect(await ended).toBeInstanceOf(Error)
        await (await Sandbox.create(connection)).kill()
        expect(unhandled).toEqual([])
      } finally {
        process.off('unhandledRejection', note)
      }
    }))

  it('does not run code that waited in a context that was removed', () =>
    withInterpreter(async (sandbox, { server }) => {
      const context = await sandbox.createCodeContext()
      const { run } = await startEndless(sandbox, context)
      // It replies at once, while the code waits.
      const waiting = await fetch(`${server.url}/execute`, {
        method: 'POST',
        headers: { 'e2b-sandbox-id': sandbox.sandboxId },
        body: JSON.stringify({ code: '1', context_id: context.id }),
      })
      await sandbox.removeCodeContext(context)
      expect((await run).error).toMatchObject({ name: 'KernelDied' })
      expect(await waiting.text()).toContain('"ContextRemoved"')
    }))

  it('runs the code of several clients one after the other', () =>
    withInterpreter(async (sandbox) => {
      await sandbox.runCode('n = 0')
      const runs = await Promise.all(Array.from({ length: 5 }, () => sandbox.runCode('n += 1\nn')))
      expect(runs.map(({ text }) => text).sort()).toEqual(['1', '2', '3', '4', '5'])
    }))
})

describe('bash', () => {
  it('keeps its state, and shows exit codes as errors', () =>
    withInterpreter(async (sandbox) => {
      const language = 'bash'
      await sandbox.runCode('x=1; cd /tmp', { language })
      const run = await sandbox.runCode('echo $x $PWD $OWN; echo err >&2; (exit 3)', {
        language,
        envs: { OWN: 'own' },
      })
      expect(run.logs).toEqual({ stdout: ['1 /tmp own\n'], stderr: ['err\n'] })
      expect(run.error).toMatchObject({ name: 'CommandFailed', value: 'exit status 3' })
      await rejectionOf(sandbox.runCode('sleep 1000', { language, timeoutMs: 300 }))
      expect((await sandbox.runCode('echo $x', { language })).logs.stdout).toEqual(['1\n'])
    }))
})

it('names the languages that it runs', () =>
  withInterpreter(async (sandbox) => {
    expect(await rejectionOf(sandbox.runCode('1', { language: 'r' }))).toBeInstanceOf(Error)
    expect(await rejectionOf(sandbox.createCodeContext({ language: 'java' }))).toBeInstanceOf(Error)
  }))
