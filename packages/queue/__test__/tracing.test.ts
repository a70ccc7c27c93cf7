/** The trace context goes from the addition through Redis into the command; channels say what a worker does. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { JobWorker } from '@nacre/queue'
import { context, SpanKind, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { Sandbox } from 'nacre'
import { instrument } from 'nacre/otel'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { ended, outputOf, type QueuePlace, TIMES, withQueue } from './place.js'

beforeAll(() => void context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable()))
afterAll(() => context.disable())

/** A worker in this process. */
async function withOwnWorker(
  { redis, base, tag }: QueuePlace,
  test: (worker: JobWorker) => Promise<void>,
): Promise<void> {
  await using sandbox = new Sandbox({ cwd: '/tmp', jobsRoot: `${base}/own`, env: { NACRE_TEST_TAG: tag } })
  await using worker = new JobWorker({
    ...TIMES,
    name: 'test',
    redis: redis.url,
    host: 'own',
    jobs: sandbox.jobs,
  })
  await worker.start()
  await test(worker)
}

it('the spans of the addition, the attempt and the job are one trace, and the command is in it', () =>
  withQueue(async (place) => {
    const { queue } = place
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    const instrumentation = instrument({ tracerProvider })
    try {
      await withOwnWorker(place, async () => {
        const tracer = tracerProvider.getTracer('test')
        const parent = tracer.startSpan('request')
        const { id } = await context.with(trace.setSpan(context.active(), parent), () =>
          queue.add({ command: 'echo $TRACEPARENT; exit 3' }),
        )
        parent.end()
        await ended(queue, id)
        const spans = await until(
          () => (exporter.getFinishedSpans().length >= 4 ? exporter.getFinishedSpans() : undefined),
          () => `${exporter.getFinishedSpans().map(({ name }) => name)}`,
        )
        const of = (kind: SpanKind, attribute: string) =>
          spans.find((span) => span.kind === kind && attribute in span.attributes)
        const added = of(SpanKind.PRODUCER, 'nacre.queue.name')
        const attempt = of(SpanKind.CONSUMER, 'nacre.queue.job.attempt')
        const started = spans.find(
          ({ kind, attributes }) => kind === SpanKind.PRODUCER && 'nacre.job.id' in attributes,
        )
        expect(added?.parentSpanContext?.spanId).toBe(parent.spanContext().spanId)
        expect(attempt?.parentSpanContext?.spanId).toBe(added?.spanContext().spanId)
        expect(started?.parentSpanContext?.spanId).toBe(attempt?.spanContext().spanId)
        expect(new Set(spans.map((span) => span.spanContext().traceId)).size).toBe(1)
        expect(attempt?.attributes).toMatchObject({
          'nacre.queue.name': 'test',
          'nacre.queue.job.id': id,
          'nacre.queue.job.attempt': 1,
          'nacre.host.id': 'own',
          'process.exit.code': 3,
          'error.type': '3',
        })
        const { traceId, spanId } = attempt?.spanContext() ?? {}
        expect((await outputOf(queue, id)).toString()).toBe(`00-${traceId}-${spanId}-01\n`)
      })
    } finally {
      instrumentation.disable()
      await tracerProvider.shutdown()
    }
  }))

it('without instrumentation on the host, the command is a child of the addition', () =>
  withQueue(async ({ queue, worker }) => {
    const exporter = new InMemorySpanExporter()
    const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
    const instrumentation = instrument({ tracerProvider })
    try {
      await worker('one')
      const { id } = await queue.add({ command: 'echo $TRACEPARENT' })
      await ended(queue, id)
      const [added] = exporter.getFinishedSpans()
      const { traceId, spanId } = added?.spanContext() ?? {}
      expect((await outputOf(queue, id)).toString()).toBe(`00-${traceId}-${spanId}-01\n`)
      const own = await queue.add({ command: 'echo $TRACEPARENT', env: { TRACEPARENT: 'mine' } })
      await ended(queue, own.id)
      expect((await outputOf(queue, own.id)).toString()).toBe('mine\n')
    } finally {
      instrumentation.disable()
      await tracerProvider.shutdown()
    }
  }))

it('a worker publishes and counts what it does', () =>
  withQueue(async (place) => {
    const { queue } = place
    const events: unknown[] = []
    const listen = (message: unknown) => void events.push(message)
    subscribe('nacre:worker', listen)
    try {
      await withOwnWorker(place, async (worker) => {
        await queue.add({ id: 'good', command: 'true' })
        await queue.add({ id: 'bad', command: 'exit 2' })
        await Promise.all([ended(queue, 'good'), ended(queue, 'bad')])
        const about = { queue: 'test', host: 'own', attempt: 1 }
        expect(events).toEqual(
          expect.arrayContaining([
            { event: 'started', id: 'good', ...about },
            { event: 'completed', id: 'good', ...about },
            { event: 'failed', id: 'bad', ...about, detail: 'the command exited with code 2' },
          ]),
        )
        expect(worker.metrics()).toEqual({
          running: 0,
          started: 2,
          attached: 0,
          completed: 1,
          failed: 1,
          stalled: 0,
          handedOver: 0,
          lost: 0,
        })
      })
    } finally {
      unsubscribe('nacre:worker', listen)
    }
  }))
