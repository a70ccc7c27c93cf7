/** Requests of commands on the tracing channel, and as spans, with real programs and a server with TLS. */
import diagnostics from 'node:diagnostics_channel'
import { SpanKind, SpanStatusCode } from '@opentelemetry/api'
import type { ReadableSpan } from '@opentelemetry/sdk-trace-base'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { startProxiedOrigin, VALUE } from '../helpers/proxied-origin.js'
import { type Traced, withSpans } from '../helpers/spans.js'
import { until } from '../helpers/until.js'

const origin = await startProxiedOrigin()
const { target, port } = origin
const curl = (file: string, more = '') => `curl -sS -o /dev/null ${more} 'https://${target}${file}'`
const options = {
  isolation: origin.rules({
    secrets: { TOKEN: { value: VALUE, hosts: [target], in: ['authorization', 'body'] } },
    requests: { [target]: ['deny * /private/**', '* /**'] },
  }),
}

const withRequests = (test: (traced: Traced) => Promise<void>) => withSpans(test, {}, options)
const isRequest = ({ attributes }: ReadableSpan) => attributes['http.request.method'] !== undefined
const spanId = (span: ReadableSpan | undefined) => span?.spanContext().spanId

/** The spans of so many requests, in the order of their ends, and those of their commands. */
async function split(traced: Traced, requests: number, commands = 1) {
  const all = await traced.spans(requests + commands)
  return { requests: all.filter(isRequest), commands: all.filter((span) => !isRequest(span)) }
}

describe('the span of a request', () => {
  it('is a child of the span of its command, and has no path, query, header or body', () =>
    withRequests(async (traced) => {
      const bearer = '-H "Authorization: Bearer $TOKEN"'
      await traced.sandbox.exec(curl('/a/way?query=1', `${bearer} --data "body=$TOKEN"`))
      const { requests, commands } = await split(traced, 1)
      expect(origin.seen.at(-1)).toMatchObject({ authorization: `Bearer ${VALUE}`, url: '/a/way?query=1' })
      const [span] = requests
      expect(span).toMatchObject({
        name: 'POST',
        kind: SpanKind.CLIENT,
        status: { code: SpanStatusCode.UNSET },
        attributes: {},
        events: [],
      })
      expect(span?.attributes).toEqual({
        'http.request.method': 'POST',
        'http.response.status_code': 200,
        'url.scheme': 'https',
        'server.address': 'localhost',
        'server.port': port,
        'nacre.session.id': 'default',
      })
      expect(span?.parentSpanContext?.spanId).toBe(spanId(commands[0]))
      expect(span?.spanContext().traceId).toBe(commands[0]?.spanContext().traceId)
    }))

  it('says how it has failed, and why it was refused', () =>
    withRequests(async (traced) => {
      const requests = ['/private/x', '/401', '/cut', '/a']
      const more = ['', '', '--http1.1', '-X BREW']
      for (const [at, file] of requests.entries()) await traced.sandbox.exec(curl(file, more[at]))
      const { requests: spans } = await split(traced, 4, 4)
      const seen = spans.map(({ name, status, attributes }) => [
        ...[name, attributes['http.response.status_code'], attributes['error.type']],
        ...[attributes['nacre.request.denied'], status.code === SpanStatusCode.ERROR],
      ])
      expect(seen).toEqual([
        ['GET', 403, '403', 'rule', true],
        ['GET', 401, '401', undefined, true],
        ['GET', undefined, '_OTHER', undefined, true],
        ['HTTP', 200, undefined, undefined, false],
      ])
      expect(spans.at(-1)?.attributes).toMatchObject({
        'http.request.method': '_OTHER',
        'http.request.method_original': 'BREW',
      })
    }))

  it('is a child of the span that it names, in the trace of its command alone', () =>
    withRequests(async (traced) => {
      const named = (parent: string) => curl('/a', `-H "traceparent: ${parent}"`)
      await traced.sandbox.exec(named('${TRACEPARENT:0:36}b7ad6b7169203331-01'))
      await traced.sandbox.exec(named('00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'))
      await traced.sandbox.exec(named('nothing'))
      const { requests, commands } = await split(traced, 3, 3)
      expect(requests.map(({ parentSpanContext }) => parentSpanContext?.spanId)).toEqual([
        'b7ad6b7169203331',
        spanId(commands[1]),
        spanId(commands[2]),
      ])
      for (const [at, span] of requests.entries())
        expect(span.spanContext().traceId).toBe(commands[at]?.spanContext().traceId)
      // The host gets what the program has sent.
      expect(origin.seen.at(-1)?.headers.traceparent).toBe('nothing')
    }))

  it('ends when the request does, after its command', () =>
    withRequests(async (traced) => {
      const { sandbox } = traced
      let begins = () => {}
      const begun = new Promise<void>((resolve) => {
        begins = resolve
      })
      const { start } = diagnostics.tracingChannel('nacre:request')
      start.subscribe(begins)
      const stalled = `mkfifo pipe; ${curl('/a', '-T -')} <> pipe 2> /dev/null & upload=$!; read -r`
      const command = sandbox.execStream(stalled, { input: 'pipe' })
      await begun
      start.unsubscribe(begins)
      await command.write('\n')
      await command.result
      await sandbox.exec('kill $upload')
      const { requests, commands } = await split(traced, 1, 2)
      expect(requests[0]?.attributes).toMatchObject({ 'http.request.method': 'PUT', 'error.type': '_OTHER' })
      expect(requests[0]?.parentSpanContext?.spanId).toBe(spanId(commands[0]))
    }))
})

describe('the tracing channel nacre:request', () => {
  it('publishes each request with its command, also without subscribers of nacre:exec', () =>
    withSandbox(
      async ({ sandbox }) => {
        const events: [string, Record<string, unknown>][] = []
        const note = (name: string) => (context: unknown) =>
          void events.push([name, { ...(context as object) }])
        const names = ['start', 'end', 'asyncStart', 'asyncEnd', 'error'] as const
        const channel = diagnostics.tracingChannel('nacre:request')
        const subscribers = names.map((name) => [channel[name], note(name)] as const)
        for (const [one, subscriber] of subscribers) one.subscribe(subscriber)
        await sandbox.exec(curl('/private/x?query'))
        await until(
          () => events.length >= 4 || undefined,
          () => JSON.stringify(events),
        )
        for (const [one, subscriber] of subscribers) one.unsubscribe(subscriber)
        await sandbox.exec(curl('/a'))
        expect(events.map(([name]) => name)).toEqual(['start', 'end', 'asyncStart', 'asyncEnd'])
        const about = { method: 'GET', scheme: 'https', host: 'localhost', port, path: '/private/x' }
        const call = { command: curl('/private/x?query'), sessionId: 'default' }
        expect(events[0]?.[1]).toMatchObject({ ...about, call })
        expect(events[0]?.[1]).not.toHaveProperty('result')
        expect(events[3]?.[1]).toMatchObject({ ...about, call, result: { status: 403, denied: 'rule' } })
      },
      { options },
    ))
})
