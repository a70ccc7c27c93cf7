/** One table per call: readers, JSON, the OpenAPI document, the types and the docs have the same options. */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { createServer } from 'nacre/server'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { type Call, calls } from '../../lib/protocol/calls.js'
import { decodeOptions, encodeOptions, sendable } from '../../lib/protocol/codec.js'
import { sessionExecOptions } from '../../lib/protocol/exec-options.js'
import { optionRows, optionsPage } from '../../lib/protocol/option-docs.js'
import { type Option, option } from '../../lib/schema/kind.js'
import { milliseconds } from '../../lib/schema/numbers.js'
import { readOptions } from '../../lib/schema/read.js'
import { shapeOf } from '../../lib/server/table-schema.js'

const root = path.dirname(path.dirname(__dirname))

interface Property {
  description?: string
  default?: unknown
  type?: string
  minimum?: number
  maximum?: number
  exclusiveMinimum?: number
}

const { paths } = createServer(new Sandbox()).document() as {
  paths: Record<
    string,
    {
      post?: {
        requestBody: { content: { 'application/json': { schema: { properties: Record<string, Property> } } } }
      }
    }
  >
}

/** The members of the public interfaces, with their comments. */
const types = typeMembers()

function typeMembers(): Map<string, Map<string, string>> {
  const names = ['index', 'client', 'fleet', 'otel', 'queue', 'server', 'container']
  const files = names.map((name) => path.join(root, `${name}.d.ts`))
  const program = ts.createProgram(files, { module: ts.ModuleKind.NodeNext, skipLibCheck: true })
  const checker = program.getTypeChecker()
  const found = new Map<string, Map<string, string>>()
  for (const [at, file] of files.entries()) {
    const source = program.getSourceFile(file)
    const module = source && checker.getSymbolAtLocation(source)
    if (module === undefined) throw new Error(`${file} is no module`)
    for (const symbol of checker.getExportsOfModule(module)) {
      const members = checker
        .getDeclaredTypeOfSymbol(symbol)
        .getProperties()
        .map((member): [string, string] => [
          member.name,
          ts.displayPartsToString(member.getDocumentationComment(checker)),
        ])
      for (const name of [symbol.name, `${names[at]}.${symbol.name}`])
        if (!found.has(name)) found.set(name, new Map(members))
    }
  }
  return found
}

function options({ table }: Pick<Call, 'table'>): Array<[string, Option<unknown>]> {
  return Object.entries(table)
}

describe.each(calls.map((call) => [call.name, call] as const))('%s', (_, call) => {
  it('names its options when it is given another one', () => {
    const known = Object.keys(call.table).join(', ')
    expect(() => readOptions(call.table, { other: 1 }, 'the call')).toThrow(
      `the call has no option "other"; it has: ${known}`,
    )
  })

  it('has the members of its public type, with the same defaults and bounds', () => {
    const members = types.get(call.module === undefined ? call.type : `${call.module}.${call.type}`)
    const { beside = [] } = call
    expect([...(members?.keys() ?? [])].sort()).toEqual([...Object.keys(call.table), ...beside].sort())
    for (const [name, { json, default: value }] of options(call)) {
      const comment = members?.get(name) ?? ''
      if (value !== undefined) {
        const shown = typeof value === 'string' ? `'${value}'` : String(value)
        expect(comment, `the default of ${name}`).toMatch(
          new RegExp(`Default: ${shown}\\b|Default: ${shown}`),
        )
      }
      const { maximum } = (json?.schema ?? {}) as { maximum?: number }
      if (maximum !== undefined && maximum !== Number.MAX_SAFE_INTEGER && !name.endsWith('Delay'))
        expect(comment, `the bounds of ${name}`).toContain(String(maximum))
    }
  })

  const { route } = call
  if (route === undefined) return
  it('is taken over HTTP with the same options', () => {
    const { properties } = paths[route]?.post?.requestBody.content['application/json'].schema ?? {
      properties: {},
    }
    for (const [name, { schema }] of sendable(call.table)) {
      const { doc, default: value, otherwise } = Object.fromEntries(options(call))[name] as Option<unknown>
      const property = properties[name]
      expect(property, name).toBeDefined()
      if (name === 'command') continue
      expect(JSON.stringify(property)).toContain(JSON.stringify(doc).slice(1, -1))
      if (otherwise !== undefined)
        expect(JSON.stringify(property)).toContain(JSON.stringify(`Default: ${otherwise}.`).slice(1, -1))
      if (value !== undefined) expect(property?.default).toEqual(value)
      if (schema.type === 'number' || schema.type === 'integer') expect(property).toMatchObject({ ...schema })
    }
    const sent = new Set(sendable(call.table).map(([name]) => name))
    for (const [name, { json }] of options(call)) expect(sent.has(name)).toBe(json !== undefined)
  })
})

describe('docs/options.md', () => {
  it('matches the tables', () => {
    expect(readFileSync(path.join(root, 'docs/options.md'), 'utf8')).toBe(optionsPage(calls))
  })
})

describe('an option that is added to a table', () => {
  const table = {
    ...sessionExecOptions,
    patience: option(milliseconds, { doc: 'How long to be patient.', default: 70 }),
  }

  it('is read, sent, taken, described and documented', () => {
    expect(readOptions(table, { patience: 7.5 }, 'exec')).toEqual({ patience: 8 })
    expect(() => readOptions(table, { patience: -1 }, 'exec')).toThrow(
      'patience must be a number of milliseconds from 0 to 2147483647, not -1',
    )
    expect(encodeOptions(table, { patience: 8 })).toEqual({ patience: 8 })
    expect(decodeOptions(table, { patience: 8 }, () => new Uint8Array())).toEqual({ patience: 8 })
    expect(shapeOf(table).patience?.safeParse('long').success).toBe(false)
    expect(shapeOf(table).patience?.safeParse(8).success).toBe(true)
    expect(optionRows(table)).toContain(
      '| `patience` | `70` | 0 to 2147483647 ms | How long to be patient. |',
    )
  })
})
