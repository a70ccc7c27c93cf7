/** Trace context flows from the client through the router to the server and into the command. */
import { context, trace } from '@opentelemetry/api'
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks'
import { BasicTracerProvider, InMemorySpanExporter, SimpleSpanProcessor } from '@opentelemetry/sdk-trace-base'
import { Sandbox } from 'nacre'
import { instrument } from 'nacre/otel'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { Cluster } from './cluster/cluster.js'
import { PORT, SharedPods, TOKEN } from './cluster/pods.js'

let cluster: Cluster
const exporter = new InMemorySpanExporter()
const tracerProvider = new BasicTracerProvider({ spanProcessors: [new SimpleSpanProcessor(exporter)] })
const instrumentation = instrument({ tracerProvider })

beforeAll(async () => {
  context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable())
  cluster = await new Cluster({ pods: new SharedPods(), pool: 1 }).start()
}, 60_000)

afterAll(async () => {
  instrumentation.disable()
  context.disable()
  await cluster[Symbol.asyncDispose]()
}, 60_000)

describe('a command of a fleet', () => {
  it('has a span and metrics with the ids of its sandbox and session; the router and the command receive its context', async () => {
    await using fleet = cluster.fleet()
    await using sandbox = await fleet.create()
    const root = tracerProvider.getTracer('test').startSpan('root')
    const { stdout } = await context.with(trace.setSpan(context.active(), root), () =>
      sandbox.client.exec('echo $TRACEPARENT'),
    )
    const span = await until(
      () =>
        exporter.getFinishedSpans().find(({ attributes }) => attributes['nacre.sandbox.id'] === sandbox.id),
      () => 'no span',
    )
    expect(span.attributes['nacre.session.id']).toBe('default')
    const { traceId, spanId } = span.spanContext()
    expect(traceId).toBe(root.spanContext().traceId)
    expect(span.parentSpanContext?.spanId).toBe(root.spanContext().spanId)
    expect(stdout).toBe(`00-${traceId}-${spanId}-01\n`)
    expect(cluster.router.lastHeaders().traceparent).toBe(`00-${traceId}-${spanId}-01`)
    const { ip } = cluster.controller.podOf(sandbox.id)
    const metrics = await fetch(`http://${ip}:${PORT}/metrics`, { headers: { 'x-nacre-token': TOKEN } })
    const lines = (await metrics.text()).split('\n')
    expect(lines).toContain(`nacre_sandbox_info{sandbox="${sandbox.id}"} 1`)
    expect(lines).toContain('nacre_session_commands_total{session="default"} 1')
  })

  it('is the parent of the span on the server', async () => {
    exporter.reset()
    const sandbox = new Sandbox()
    const [traceId, spanId] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331']
    await sandbox.exec('true', { env: { TRACEPARENT: `00-${traceId}-${spanId}-01` } })
    await sandbox.destroy()
    const [span] = exporter.getFinishedSpans()
    expect(span?.spanContext().traceId).toBe(traceId)
    expect(span?.parentSpanContext).toMatchObject({ spanId, isRemote: true })
  })
})
