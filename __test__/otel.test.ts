/** nacre/otel: spans of commands, processes and jobs, and the trace context that they get. */
import { context, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { instrument } from 'nacre/otel'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withSandbox } from './helpers/invariants.js'
import { parentOf, withSpans } from './helpers/spans.js'
import { rejectionOf } from './helpers/thrown.js'

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
afterAll(() => context.disable())

describe('the span of a command', () => {
  it('has the program, the pid and the exit code', () =>
    withSpans(async ({ sandbox, spans }) => {
      const { stdout } = await sandbox.exec('echo $$')
      await sandbox.exec(['/bin/sh', '-c', 'exit 3'])
      const [text, words] = await spans(2)
      expect(text).toMatchObject({
        name: 'bash',
        kind: SpanKind.CLIENT,
        status: { code: SpanStatusCode.UNSET },
      })
      expect(text?.attributes).toEqual({
        'process.executable.name': 'bash',
        'process.exit.code': 0,
        'process.pid': Number(stdout),
        'nacre.session.id': 'default',
        'nacre.command.cpu_ms': expect.any(Number),
      })
      expect(words).toMatchObject({ name: 'sh', status: { code: SpanStatusCode.ERROR } })
      expect(words?.attributes).toMatchObject({ 'process.exit.code': 3, 'error.type': '3' })
    }))

  it('has the kind of an error, and not its message', () =>
    withSpans(async ({ sandbox, spans }) => {
      // The timeout also counts while the shell starts or is replaced, and such a command has no exit code.
      await sandbox.exec('exit 3')
      await rejectionOf(sandbox.exec('sleep 60', { timeout: 20 }))
      await sandbox.exec('kill -9 $BASHPID')
      await rejectionOf(sandbox.exec('secret=1; exit 4', { check: true }))
      await rejectionOf(sandbox.exec('true', { cwd: '/proc/nonexistent' }))
      await rejectionOf(sandbox.exec('true', { signal: AbortSignal.abort() }))
      await sandbox.execStream('exit 5').result
      const seen = (await spans(7)).map(({ attributes, status }) => {
        expect(status).toEqual({ code: SpanStatusCode.ERROR })
        return [attributes['error.type'], attributes['process.exit.code']]
      })
      expect(seen).toEqual([
        ['3', 3],
        ['COMMAND_TIMEOUT', 143],
        ['SIGKILL', 137],
        ['COMMAND_FAILED', 4],
        ['CWD_NOT_FOUND', undefined],
        ['ABORT_ERR', undefined],
        ['5', 5],
      ])
    }))

  it('has the arguments only on request', () =>
    withSpans(
      async ({ sandbox, spans }) => {
        await sandbox.exec('true')
        await sandbox.exec(['echo', 'a b'])
        const seen = (await spans(2)).map(({ attributes }) => attributes['process.command_args'])
        expect(seen).toEqual([
          ['bash', '-c', 'true'],
          ['echo', 'a b'],
        ])
      },
      { commandArgs: true },
    ))

  it('is a child of the active span, and the parent of spans of the command', () =>
    withSpans(async ({ sandbox, tracer, spans }) => {
      const stdout = await tracer.startActiveSpan('outer', async (outer) => {
        const result = await sandbox.exec('echo $TRACEPARENT')
        outer.end()
        return result.stdout
      })
      const [command, outer] = await spans(2)
      expect(command?.parentSpanContext?.spanId).toBe(outer?.spanContext().spanId)
      expect(stdout.trim()).toBe(parentOf(command?.spanContext() as never))
    }))
})

describe('TRACEPARENT', () => {
  it('does not stay in the session, and does not replace that of the caller', () =>
    withSpans(async ({ sandbox, spans }) => {
      const own = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
      const show = 'echo "$TRACEPARENT ${TRACESTATE-none}"'
      expect((await sandbox.exec(show, { env: { TRACEPARENT: own } })).stdout).toBe(`${own} none\n`)
      expect((await sandbox.exec(show, { env: { TRACEPARENT: undefined } })).stdout).toBe(' none\n')
      const lines = [await sandbox.exec(show), await sandbox.exec(show)].map(({ stdout }) => stdout)
      expect(new Set(lines).size).toBe(2)
      expect(
        (await sandbox.exec('unset TRACEPARENT; export TRACEPARENT; declare -p TRACEPARENT')).exitCode,
      ).toBe(0)
      await sandbox.setEnvVars({ TRACEPARENT: own })
      expect((await sandbox.exec(show)).stdout).toMatch(/^00-.* none\n$/)
      await spans(6)
    }))

  it('is not there without a trace', () =>
    withSandbox(async ({ sandbox }) => {
      const instrumentation = instrument()
      expect((await sandbox.exec('echo ${TRACEPARENT-none}')).stdout).toBe('none\n')
      instrumentation.disable()
    }))

  it('comes with the state of the trace', () =>
    withSpans(async ({ sandbox }) => {
      const { createTraceState } = await import('@opentelemetry/api')
      const parent = {
        traceId: '0af7651916cd43dd8448eb211c80319c',
        spanId: 'b7ad6b7169203331',
        traceFlags: 1,
        traceState: createTraceState('vendor=1'),
      }
      const { stdout } = await context.with(trace.setSpanContext(context.active(), parent), () =>
        sandbox.exec('echo $TRACESTATE'),
      )
      expect(stdout).toBe('vendor=1\n')
    }))
})

describe('the span of a process', () => {
  it('ends with the process', () =>
    withSpans(async ({ sandbox, spans }) => {
      const process = await sandbox.startProcess('echo $TRACEPARENT; read -r; exit 7', {
        input: 'pipe',
        processId: 'one',
      })
      await process.waitForLog('00-')
      expect(await spans(0)).toEqual([])
      await process.write('go\n')
      const [span] = await spans(1)
      expect(span?.attributes).toEqual({
        'process.executable.name': 'bash',
        'process.exit.code': 7,
        'process.pid': process.pid,
        'error.type': '7',
        'nacre.process.id': 'one',
        'nacre.session.id': 'default',
      })
      expect((await process.getLogs()).stdout.trim()).toBe(parentOf(span?.spanContext() as never))
    }))

  it('ends when the process cannot start', () =>
    withSpans(async ({ sandbox, spans }) => {
      await rejectionOf(sandbox.startProcess('true', { cwd: '/proc/nonexistent' }))
      const [span] = await spans(1)
      expect(span?.attributes['error.type']).toBe('CWD_NOT_FOUND')
    }))
})

describe('the span of a job', () => {
  it('ends with its start, and the job has it as parent', () =>
    withSpans(async ({ sandbox, spans }) => {
      const job = await sandbox.jobs.start({ command: ['printenv', 'TRACEPARENT'], jobId: 'first' })
      await sandbox.jobs.wait(job)
      const [span] = await spans(1)
      expect(span).toMatchObject({ name: 'printenv', kind: SpanKind.PRODUCER })
      expect(span?.attributes).toEqual({ 'process.executable.name': 'printenv', 'nacre.job.id': 'first' })
      expect((await sandbox.jobs.read(job)).raw.trim()).toBe(parentOf(span?.spanContext() as never))
      await sandbox.jobs.remove(job)
    }))
})

describe('instrument', () => {
  it('ends open spans after it is disabled, and begins none', async () => {
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    await withSandbox(async ({ sandbox }) => {
      exporter.reset()
      const instrumentation = instrument({ tracerProvider })
      const command = sandbox.execStream('read -r; exit 3', { input: 'pipe' })
      instrumentation.disable()
      instrumentation.disable()
      await sandbox.createSession({ id: 'other' })
      await (await sandbox.getSession('other'))?.exec('true')
      await command.write('\n')
      await command.result
      await sandbox.exec('true')
      const ended = exporter.getFinishedSpans().map(({ attributes }) => attributes['process.exit.code'])
      expect(ended).toEqual([3])
    })
  })

  it('makes no more spans once it is disabled', async () => {
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    const instrumentation = instrument({ tracerProvider })
    instrumentation.disable()
    instrumentation.disable()
    await withSandbox(async ({ sandbox }) => void (await sandbox.exec('true')))
    expect(exporter.getFinishedSpans()).toEqual([])
  })
})
