/** One table per reply: what the server encodes by it, the client decodes by it. */
import { describe, expect, it } from 'vitest'
import { fromBase64, toBase64 } from '../../lib/base/base64.js'
import { fileEvent, fileInfo } from '../../lib/calls/files.js'
import type { Encoding } from '../../lib/calls/index.js'
import { jobStatus } from '../../lib/calls/jobs.js'
import { logEvent } from '../../lib/calls/logs.js'
import { execResult } from '../../lib/calls/result.js'
import * as endpoints from '../../lib/protocol/endpoints.js'
import * as simpleCalls from '../../lib/protocol/simple-calls.js'
import { type AnyField, type Body, optional, reply, text } from '../../lib/schema/reply.js'
import { type Random, withRandom } from '../helpers/random.js'

const tables = Object.entries<Record<string, { reply: unknown }>>({
  ...simpleCalls,
  endpoints,
  files: { events: { reply: fileEvent } },
}).flatMap(([group, calls]) =>
  Object.entries(calls).map(([name, { reply }]): [string, Body<never>] => [
    `${group}.${name}`,
    reply as Body<never>,
  ]),
)

/** What every result has. */
const rest = {
  stdout: '',
  stderr: '',
  truncated: null,
  truncatedAt: null,
  denials: [],
  timestamp: '2026-01-02T03:04:05.678Z',
}

/** Random JSON of a member; undefined where it is absent. */
function jsonOf(field: AnyField, random: Random, encoding: Encoding): unknown {
  if (field.isOptional && random.next() < 0.5) return undefined
  const { schema, name, description } = field
  if ('items' in schema)
    return Array.from({ length: random.below(3) }, () => jsonOf(schema.items, random, encoding))
  if ('nullable' in schema) return random.next() < 0.5 ? null : jsonOf(schema.nullable, random, encoding)
  if ('properties' in schema) return objectOf(schema.properties, random, encoding)
  const bytes = random.bytes(random.below(8))
  if (schema.name === 'Data' && encoding === 'buffer') return { base64: toBase64(bytes) }
  if (name?.endsWith('Base64')) return toBase64(bytes)
  if (description?.startsWith('ISO 8601')) return new Date(random.below(2 ** 40)).toISOString()
  if ('enum' in schema && schema.enum) return schema.enum[random.below(schema.enum.length)]
  if ('type' in schema && schema.type === 'number') return random.next() * 1000
  if ('type' in schema && schema.type === 'boolean') return random.next() < 0.5
  return bytes.toString('latin1')
}

function objectOf(fields: Record<string, AnyField>, random: Random, encoding: Encoding): object {
  const json: Record<string, unknown> = {}
  for (const [key, field] of Object.entries(fields)) {
    const value = jsonOf(field, random, encoding)
    if (value !== undefined) json[field.name ?? key] = value
  }
  // The server never sends it where it is one of the two streams, and always where it is not.
  if ('all' in fields) {
    delete json.all
    const isMixed = [json.stdout, json.stderr].every(
      (data) => data !== '' && JSON.stringify(data) !== '{"base64":""}',
    )
    if (isMixed) json.all = json.stdout
  }
  // The server sends the bytes of a change only if the text does not have all of them.
  if ('pathBytes' in fields && json.pathBase64 === toBase64(Buffer.from(String(json.path))))
    delete json.pathBase64
  return json
}

describe.each(['utf8', 'buffer'] as const)('with the encoding %s', (encoding) => {
  it.each(tables)('%s is the same after a round trip', (_, { schema, encode, decode }) =>
    withRandom((random) => {
      for (let count = 0; count < 200; count++) {
        const sent = JSON.stringify(jsonOf({ schema }, random, encoding))
        const value = decode(JSON.parse(sent), encoding)
        const again = JSON.stringify(encode(value, toBase64))
        expect(again).toBe(sent)
        expect(decode(JSON.parse(again), encoding)).toStrictEqual(value)
      }
    }),
  )

  it('an event of a log is the same after a round trip', () => {
    const data = encoding === 'utf8' ? 'é\n' : new Uint8Array([0xff])
    const time = new Date()
    const exit = { exitCode: null, signal: 'SIGTERM', reason: 'killed' } as const
    for (const event of [
      { type: 'stderr', data, cursor: 3, time, missing: 7 } as const,
      { type: 'exit', ...exit, time } as const,
    ])
      expect(logEvent.decode(JSON.parse(JSON.stringify(logEvent.encode(event, toBase64))), encoding)).toEqual(
        event,
      )
  })
})

describe('a reply', () => {
  it('has bytes for text, and text for bytes, where the caller wants the other one', () => {
    const { decode } = reply({ data: execResult.fields.stdout })
    expect(decode({ data: 'é' }, 'buffer')).toEqual({ data: new Uint8Array([0xc3, 0xa9]) })
    expect(decode({ data: { base64: '/w==' } })).toEqual({ data: '\u{fffd}' })
  })

  it('has values of the public types', () => {
    const file = { path: 'a', name: 'a', type: 'file', size: 1, mode: 420, pathBase64: '/w==' }
    expect(fileInfo.decode({ ...file, modifiedAt: '2026-01-02T03:04:05.678Z' })).toMatchObject({
      pathBytes: fromBase64('/w=='),
      modifiedAt: new Date('2026-01-02T03:04:05.678Z'),
    })
  })

  it('has null where the server knows nothing', () => {
    const state = { state: 'running', exitCode: null, alive: true } as const
    const known = { signal: null, reason: null, endTime: null, duration: null }
    expect(jobStatus.decode(state)).toStrictEqual({ ...state, ...known })
    expect(jobStatus.encode({ ...state, ...known }, toBase64)).toEqual(state)
    const process = endpoints.getProcess.reply.decode({ id: 'web' })
    expect(process).toMatchObject({ id: 'web', lastOutputAt: null, reason: null })
    expect(process).not.toHaveProperty('endTime')
    const [job] = simpleCalls.jobCalls.list.reply.decode({ jobs: [{ startTime: '', status: state }] })
    expect(job).toMatchObject({ startTime: null, command: null })
  })

  it('has all output in one only if both streams have some, and does not compute it otherwise', () => {
    const result = {
      ...execResult.decode({ ...rest, stdout: 'a' }),
      get all(): string {
        throw new Error('it was computed')
      },
    }
    expect(execResult.encode(result, toBase64)).not.toHaveProperty('all')
    expect(execResult.decode({ ...rest, stderr: 'b' }).all).toBe('b')
    expect(execResult.decode({ ...rest, stdout: 'a', stderr: 'b', all: 'ba' }).all).toBe('ba')
  })

  it('lacks members that the table does not have', () => {
    const { encode, decode } = reply({ name: text })
    expect(encode({ name: 'a', secret: 'b' } as { name: string }, toBase64)).toEqual({ name: 'a' })
    expect(decode({ name: 'a', newer: 'b' })).toEqual({ name: 'a' })
  })

  it('has no members that another module has added to Object.prototype', () => {
    const { encode, decode } = reply<{ reason?: string; name: string }>({
      reason: optional(text),
      name: text,
    })
    Object.assign(Object.prototype, { reason: 'polluted' })
    try {
      expect(Object.keys(encode({ name: 'a' }, toBase64))).toEqual(['name'])
      expect(Object.keys(decode({ name: 'a' }))).toEqual(['name'])
    } finally {
      delete (Object.prototype as { reason?: string }).reason
    }
  })

  it.each([
    ['is no object', null],
    ['lacks its output', { ...rest, stdout: undefined }],
    ['has output of another kind', { ...rest, stdout: { base64: 7 } }],
    ['lacks a list', { ...rest, denials: undefined }],
    ['has something else in a list', { ...rest, denials: ['all'] }],
  ])('that %s is not from a server of nacre', (_, json) => {
    expect(() => execResult.decode(json)).toThrow(expect.objectContaining({ code: 'CONNECTION_FAILED' }))
  })
})
