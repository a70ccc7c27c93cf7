/**
 * Each option of each call refuses wrong values and unknown names: before anything runs, with a code, and with a message
 * that has its path and its rule. The calls and options are those of the tables, so a new option is tested without a test
 * of its own. The values and the messages are those of each kind (helpers/kinds.ts).
 */
import { existsSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { inspect, isDeepStrictEqual } from 'node:util'
import { createServer } from '@nacre/server'
import { OptionError, Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { calls as compatCalls } from '../../packages/compat/lib/options.js'
import { calls as consoleCalls } from '../../packages/console/lib/options.js'
import { calls as fleetCalls } from '../../packages/fleet/lib/options.js'
import { calls as queueCalls } from '../../packages/queue/lib/options.js'
import { calls as remoteJobsCalls } from '../../packages/remote-jobs/lib/options.js'
import { calls as serverCalls } from '../../packages/server/lib/options.js'
import { calls as toolsCalls } from '../../packages/tools/lib/options.js'
import { calls as nacreCalls } from '../../scripts/calls.mjs'
import { casesOf, type Wrong } from '../helpers/kinds.js'
import { rejectionOf } from '../helpers/thrown.js'
import {
  type Argument,
  localArguments,
  ownWays,
  type Place,
  sharedArguments,
  sharedWays,
  type Way,
} from './calls.js'

const calls = [
  ...[
    nacreCalls,
    compatCalls,
    consoleCalls,
    fleetCalls,
    queueCalls,
    remoteJobsCalls,
    serverCalls,
    toolsCalls,
  ],
].flat()
const tables = new Map(calls.map(({ name, table }) => [name, table]))

const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-refusals-'))
const stateDir = path.join(base, 'state')
const none = path.join(base, 'none')
const command = `touch ${base}/ran`
/** Nothing may ever start there. */
const idle = new Sandbox({ stateDir: none, jobsRoot: none })
const sandbox = new Sandbox({ cwd: base, stateDir, jobsRoot: none })
const server = createServer(sandbox, { authenticated: true })
let requests = 0
const client = new SandboxClient({
  url: 'http://localhost',
  fetch: (request, init) => {
    requests++
    return server.fetch(new Request(request, init))
  },
})

type Where = 'in this process' | 'by a client'
const places = {} as Record<Where, Place>
let files: string[] = []
let sent = 0

beforeAll(async () => {
  for (const [name, one] of [
    ['in this process', sandbox],
    ['by a client', client as unknown as Sandbox],
  ] as const) {
    const session = await one.createSession()
    const process = await one.startProcess('sleep 600', { input: 'pipe' })
    const stream = session.execStream('sleep 600', { input: 'pipe', logLimit: 100 })
    await stream.getLogs()
    places[name] = { sandbox: one, session, process, stream, command }
  }
  files = readdirSync(base)
  sent = requests
})
afterEach(async () => {
  expect(readdirSync(base)).toEqual(files)
  expect(requests).toBe(sent)
  expect(await sandbox.listProcesses()).toHaveLength(2)
  expect(await sandbox.listSessions()).toHaveLength(3)
})
afterAll(async () => {
  for (const { stream } of Object.values(places)) {
    await stream.kill('SIGKILL')
    await stream.result
  }
  await client.destroy()
  await sandbox.destroy()
  await idle.destroy()
  rmSync(base, { recursive: true })
})

/** The error of a call, at the latest with its first result. */
function refusalOf(call: () => unknown): Promise<Error> {
  return rejectionOf(firstResult(call))
}

async function firstResult(call: () => unknown): Promise<void> {
  const value = await call()
  if (value instanceof ReadableStream) await value.getReader().read()
  else if (typeof (value as AsyncIterator<unknown> | undefined)?.next === 'function')
    await (value as AsyncIterator<unknown>).next()
}

function expectRule(text: string, name: string, rule: RegExp | string, shown: string): void {
  const rest = text.startsWith(name) ? text.slice(name.length) : text
  if (typeof rule === 'string') expect(rest.slice(0, rule.length), shown).toBe(rule)
  else expect(rest, shown).toMatch(rule)
}

function expectRefusal(
  error: unknown,
  { message, code, value }: Wrong,
  name: string,
  isSecret?: boolean,
): void {
  const shown = `${name}: ${inspect(value, { maxStringLength: 100, maxArrayLength: 3 })}`
  expect(error, shown).toBeInstanceOf(OptionError)
  expect(error, shown).toBeInstanceOf(TypeError)
  const { code: found, message: text } = error as OptionError
  expectRule(text, name, message, shown)
  expect(found, shown).toBe(code)
  // The value can be long.
  expect(text.length, shown).toBeLessThan(500)
  if (isSecret) expect(text, shown).not.toContain('secret')
}

/** A name with two neighbouring letters in the wrong order. */
function misspelt(name: string): string {
  const at = [...name].findIndex((letter, index) => index > 0 && letter !== (name[index + 1] ?? letter))
  if (at < 0) return name.toUpperCase()
  return name.slice(0, at) + name[at + 1] + name[at] + name.slice(at + 2)
}

const NO_OBJECTS = [null, [], ['x'], 'x', 5, true, () => {}]

async function expectRefusals(call: string, ways: Way[] = []): Promise<void> {
  const table = tables.get(call) ?? {}
  expect(ways.length).toBeGreaterThan(0)
  for (const { owner, prefix, base, run, takesTimeout } of ways) {
    const refusal = (options: unknown) => refusalOf(() => run(options))
    for (const [name, { bounds }] of Object.entries(table)) {
      const { wrong, isSecret } = casesOf(call, name, bounds)
      for (const one of wrong)
        expectRefusal(await refusal({ ...base, [name]: one.value }), one, (prefix ?? '') + name, isSecret)
      const unknown = await refusal({ ...base, [misspelt(name)]: undefined })
      expect(unknown.message).toContain(
        `${owner} has no option "${misspelt(name)}"; did you mean "${name}"? It has: `,
      )
    }
    const { code, message } = (await refusal({ ...base, qqqqqq: 1 })) as OptionError
    expect([code, message]).toEqual([
      ...['INVALID_OPTION', expect.stringContaining(`${owner} has no option "qqqqqq"; it has: `)],
    ])
    for (const name of Object.keys(table)) expect(message.split('it has: ')[1]?.split(', ')).toContain(name)
    if (prefix !== undefined) continue
    if (takesTimeout)
      for (const one of casesOf(call, 'timeout', table.timeout?.bounds ?? '').wrong)
        if (['number', 'string'].includes(typeof one.value))
          expectRefusal(await refusal(one.value), one, 'timeout')
    for (const value of NO_OBJECTS) {
      if (takesTimeout && ['number', 'string'].includes(typeof value)) continue
      const { message } = await refusal(value)
      expect(message, owner).toMatch(
        new RegExp(`^the (options|argument) of ${owner} must be an object.*, not `),
      )
    }
  }
}

describe('right values are accepted by', () => {
  it.each(calls)('$name', ({ name: call, table }) => {
    for (const [name, { read, bounds }] of Object.entries(table)) {
      const { right } = casesOf(call, name, bounds)
      for (const value of right)
        expect(() => read(value, name), `${name}: ${inspect(value, { maxArrayLength: 3 })}`).not.toThrow()
    }
  })
})

const shared = Object.keys(sharedWays(blank()))
const own = Object.keys(ownWays(idle, client, none))

/** For the names of calls only. */
function blank(): Place {
  return { sandbox: idle } as Place
}

it('each call of a table is made', () => {
  expect([...shared, ...own].sort()).toEqual([...tables.keys()].sort())
})

describe.each(['in this process', 'by a client'] as const)('wrong options are refused %s by', (where) => {
  it.each(shared)('%s', (call) => expectRefusals(call, sharedWays(places[where])[call]))
})

describe('wrong options are refused by', () => {
  it.each(own)('%s', async (call) => {
    await expectRefusals(call, ownWays(idle, client, none)[call])
    expect(existsSync(none)).toBe(false)
  })
})

describe.each([
  ['in this process', (place: Place) => [...sharedArguments(place), ...localArguments(place)]],
  ['by a client', sharedArguments],
] as const)('wrong arguments are refused %s:', (where, argumentsOf) => {
  it.each(argumentsOf(blank()).map(([name], at) => [name, at] as const))('%s (%i)', async (_, at) => {
    const [name, cases, ...ways] = argumentsOf(places[where])[at] as Argument
    for (const call of ways)
      for (const one of cases.wrong) expectRefusal(await refusalOf(() => call(one.value)), one, name)
  })
})

/** What a request needs beside options. */
const bodies: Record<string, object> = {
  '/v1/env': { vars: {} },
  '/v1/port-links': { port: 1 },
  '/v1/exec': { command },
  '/v1/exec/stream': { command },
  '/v1/processes': { command },
  '/v1/services': { command, healthCheck: { port: 1 } },
  '/v1/jobs': { command },
  '/v1/processes/{processId}/wait-for-log': { pattern: 'x' },
  '/v1/processes/{processId}/wait-for-port': { port: 1 },
  '/v1/sessions/{sessionId}/files/copy': { from: 'a', to: 'b' },
  '/v1/sessions/{sessionId}/files/remove': { path: 'a' },
  '/v1/sessions/{sessionId}/why': { target: '/a' },
}

/** Routes whose options are those of another call. */
const more = [
  ['exec and execStream', '/v1/exec'],
  ['kill of execStream, and session.killCommand', '/v1/sessions/{sessionId}/commands/{commandId}/kill'],
  ['getLogLines', '/v1/runs/{runId}/lines'],
  ['waitFor', '/v1/runs/{runId}/wait-for'],
  ['waitForExit and waitForInput', '/v1/processes/{processId}/wait-for-input'],
] as const

const routes = [
  ...calls.flatMap(({ name, route }) => (route === undefined ? [] : [[name, route] as const])),
  ...more,
]

/** Whether JSON has the value, and it is wrong there too. */
function isWrongInJson({ value }: Wrong): boolean {
  // null unsets a variable.
  if (typeof value === 'bigint' || (value as { PORT?: unknown } | null)?.PORT === null) return false
  const json = JSON.stringify(value)
  return json !== undefined && isDeepStrictEqual(JSON.parse(json), value)
}

/** The code in a reply: that of the kind for values of the right type in JSON. */
function codeInJson({ code, value }: Wrong): string {
  const texts = Array.isArray(value) ? value : [value]
  const isTyped =
    code === 'INVALID_ENV_NAME' ||
    (code === 'INVALID_ID' ? [value] : texts).every((one) => typeof one === 'string')
  return isTyped ? code : 'INVALID_OPTION'
}

describe('wrong values are refused over HTTP by', () => {
  it.each(routes)('%s at %s', async (call, route) => {
    const isHealthCheck = call === 'a health check by port'
    const prefix = isHealthCheck ? 'healthCheck.' : ''
    const refusal = async (options: object) => {
      const response = await server.fetch(
        new Request(`http://localhost${route.replaceAll(/\{\w+\}/g, 'none')}`, {
          ...{ method: 'POST', headers: { 'content-type': 'application/json' } },
          body: JSON.stringify(
            isHealthCheck
              ? { command, healthCheck: { port: 1, ...options } }
              : { ...bodies[route], ...options },
          ),
        }),
      )
      const { code, message } = (await response.json()) as { code: string; message: string }
      return { status: response.status, code, message }
    }
    for (const [name, { bounds, json }] of Object.entries(tables.get(call) ?? {})) {
      const isTaken = json !== undefined && !(name === 'logLimit' && route === '/v1/exec')
      const { wrong } = casesOf(call, name, bounds)
      for (const one of wrong.filter(isWrongInJson)) {
        const { status, code, message } = await refusal({ [name]: one.value })
        const shown = `${name}: ${inspect(one.value, { maxStringLength: 100, maxArrayLength: 3 })}`
        expect([status, code], shown).toEqual([400, isTaken ? codeInJson(one) : 'INVALID_OPTION'])
        const rule = isTaken
          ? `^${prefix}${name}\\S*: (is missing; it )?(must |has |no option "|\\[)`
          : `no option "${name}"`
        expect(message, shown).toMatch(new RegExp(rule))
        // Values of the right type break the same rule as in a call.
        if (isTaken && json.rule === undefined && typeof one.value !== 'object')
          expectRule(message.replace(': ', ' '), prefix + name, one.message, shown)
      }
    }
    const unknown = await refusal({ qqqqqq: 1 })
    expect([unknown.status, unknown.code]).toEqual([400, 'INVALID_OPTION'])
    expect(unknown.message).toContain('no option "qqqqqq"; it has: ')
  })

  it.each([
    ['/v1/sessions/default/history?limit=101', /^limit must be a whole number from 1 to 100, not 101$/],
    ['/v1/sessions/default/history?limit=x', /^limit: must be /],
    ['/v1/events?since=-1', /^since: must be /],
    ['/v1/processes?status=ended', /^status must be one of starting, /],
    ['/v1/processes?sessionId=a/b', /^sessionId: must be 1 to 128 characters /],
    ['/v1/processes/none/logs?encoding=latin1', /^encoding: must be 'utf8' or 'buffer', not "latin1"$/],
    ['/v1/processes/none/output?cursor=x', /^cursor: must be /],
    ['/v1/processes/none/output?follow=1', /^follow: must be /],
    ['/v1/jobs/none/output?maxBytes=0', /^maxBytes /],
    ['/v1/jobs/none/output?lines=yes', /^lines: must be /],
    ['/v1/processes/none/logs?other=1', /no option "other"/],
  ])('%s', async (path, message) => {
    const response = await server.fetch(new Request(`http://localhost${path}`))
    expect(response.status).toBe(400)
    expect(((await response.json()) as Error).message).toMatch(message)
  })
})
