/** One table per call: the reader, JSON, the OpenAPI document and the docs have the same options. */

import { createServer } from '@nacre/server'
import { Sandbox } from 'nacre'
import { decodeOptions, encodeOptions, kinds } from 'nacre/internal'
import { protocol, tables } from 'nacre/internal/server'
import { describe, expect, it } from 'vitest'
import { readJson, shape } from '../../packages/server/lib/request-json.js'
import { texts } from '../../packages/server/lib/texts.js'
import { calls } from '../../scripts/calls.mjs'
import { faultsOf } from '../../scripts/texts.mjs'

interface Schema {
  default?: unknown
  properties?: Record<string, Schema>
  anyOf?: Schema[]
}

const { paths } = createServer(new Sandbox()).document() as {
  paths: Record<string, { post?: { requestBody: { content: Record<string, { schema: Schema }> } } }>
}

it.each(calls.filter(({ route }) => route !== undefined))(
  '$route has the options of $name, with defaults, bounds and texts',
  ({ table, route = '' }) => {
    const body = paths[route]?.post?.requestBody.content['application/json']?.schema
    // A service has its health check inside.
    const schemas = [body, ...(body?.properties?.healthCheck?.anyOf ?? [])]
    for (const [name, { json }] of protocol.sendable(table)) {
      if (name === 'command') continue
      const property = schemas.map((schema) => schema?.properties?.[name]).find((found) => found)
      expect(property, name).toBeDefined()
      expect(JSON.stringify(property)).toContain(JSON.stringify(texts.get(table)?.[name]).slice(1, -1))
      expect(property?.default, name).toEqual(table[name]?.default)
      if ('type' in json.schema) expect(property).toMatchObject(json.schema)
    }
  },
)

it('an option that is added to a table is read, sent and taken', () => {
  const table = { ...tables.execOptions, patience: { ...kinds.milliseconds, default: 70 } }
  expect(kinds.readOptions(table, { patience: 7.5 }, 'exec')).toEqual({ patience: 8 })
  expect(() => kinds.readOptions(table, { patience: -1 }, 'exec')).toThrow(
    'patience must be a number of milliseconds from 0 to 2147483647, not -1',
  )
  expect(encodeOptions(table, { patience: 8 })).toEqual({ patience: 8 })
  expect(decodeOptions(table, { patience: 8 }, () => new Uint8Array())).toEqual({ patience: 8 })
  expect(readJson(shape(table), { patience: 8 }, 'the body')).toEqual({ patience: 8 })
  expect(() => readJson(shape(table), { patience: -1 }, 'the body')).toThrow('patience: must be a number')
})

describe('the comment on an option', () => {
  it.each([
    ['agrees with the table', 'Milliseconds, 0 to 2147483647. Default: 70.', 70, undefined],
    ['may explain the default', 'Milliseconds, 0 to 2147483647. Default: 70 (a while).', 70, undefined],
    ['may have a default in words', "At most 2147483647. Default: the sandbox's.", undefined, undefined],
    ['must have the default', 'At most 2147483647.', 70, 'patience is 70, but its comment has: '],
    ['must not have another one', 'At most 2147483647. Default: 7.', 70, 'is 70, but its comment has: 7'],
    ['must not invent one', 'At most 2147483647. Default: 7.', undefined, 'is undefined, but its comment'],
    ['must have the maximum', 'Milliseconds. Default: 70.', 70, 'does not have its maximum, 2147483647'],
    [
      'must have more than a default',
      'Default: 2147483647.',
      2_147_483_647,
      'has no comment in its interface',
    ],
  ])('%s', (_, text, value, fault) => {
    const faults = [
      ...faultsOf('patience', text, { default: value, json: { schema: { maximum: 2_147_483_647 } } }),
    ]
    expect(faults).toEqual(fault === undefined ? [] : [expect.stringContaining(fault)])
  })
})
