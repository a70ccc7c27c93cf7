/** The declarations compile in strict projects that check libraries too, however modules are resolved. */
import { renameSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type Consumer, createConsumer } from '../helpers/consumer.js'

let consumer: Consumer

/** Uses types and values of every entry point; it is compiled and also run. */
const PROGRAM = `
import {
  type AddonError, type ExecResult, OptionError, type Process, Sandbox, SandboxError, type SandboxOptions
} from 'nacre'
import { SandboxClient } from 'nacre/client'
import { createSessionClass, type Session } from 'nacre/container'
import type { FleetSandbox, SandboxFleet } from '@nacre/fleet'
import type { JobQueue, JobWorkerOptions, QueueJob } from '@nacre/queue'
import { createServer, type Server } from '@nacre/server'

const options: SandboxOptions = { env: { NAME: 'you', GONE: undefined }, timeout: 10_000 }

async function main(): Promise<string> {
  const sandbox = new Sandbox(options)
  const result: ExecResult = await sandbox.exec('echo "hello $NAME"')
  const lines: string[] = []
  for await (const event of sandbox.execStream(['printf', 'a'], { encoding: 'buffer' })) {
    if (event.type === 'stdout') lines.push(new TextDecoder().decode(event.data))
  }
  try {
    await sandbox.exec('echo so far; exit 2', { check: true })
  } catch (error) {
    if (error instanceof SandboxError && error.result) lines.push(error.result.stdout.trim(), error.code)
  }
  await sandbox.destroy()
  return [result.stdout.trim(), ...lines].join()
}

export const remote = (url: URL): Promise<Process[]> => new SandboxClient({ url }).listProcesses()
export const server = (sandbox: Sandbox): Server => createServer(sandbox, { maxRequests: 5 })
export const follow = async (sandbox: Sandbox): Promise<void> => {
  for await (const read of sandbox.jobs.follow('a')) read.raw.trim()
}
export const remoteIn = ({ client }: FleetSandbox): SandboxClient => client
export const created = (fleet: SandboxFleet): Promise<FleetSandbox> => fleet.create()
export const ended = (queue: JobQueue): Promise<QueueJob> => queue.wait('a')
export const worker = ({ jobs }: Sandbox): JobWorkerOptions => ({ name: 'a', redis: 'redis://db', host: 'b', jobs })
export const session = (): Session => new (createSessionClass())({ id: 'a' })
export const isMissing = (error: AddonError): boolean => error.code === 'ADDON_MISSING'
// @ts-expect-error: a time is a number
export const wrong = (): Sandbox => new Sandbox({ timeout: 'soon' })
export const isTypeError = (error: OptionError): TypeError => error

void main().then((text) => console.log(text))
`
const EXPECTED = 'hello you,a,so far,COMMAND_FAILED\n'

const STRICT = { strict: true, skipLibCheck: false, target: 'es2022', types: ['node'] }

/** A program that needs no types of Node. */
const BARE = `
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { Session } from 'nacre/container'
import { serve } from '@nacre/server'
const sandbox = new Sandbox()
export const signal = (await sandbox.exec('echo', { signal: new AbortController().signal })).signal
export const names = [SandboxClient.name, Session.name, serve.name]
`

/** Compiles the files in one project. Rejects with the errors of the compiler. */
async function compile(name: string, files: string[], options: object): Promise<void> {
  const compilerOptions = { ...STRICT, ...options, outDir: name }
  consumer.write(`${name}.json`, JSON.stringify({ compilerOptions, files }))
  await consumer.runTool('tsc', '-p', `${name}.json`)
}

beforeAll(async () => {
  consumer = await createConsumer(['@types/node', '@nacre/fleet', '@nacre/queue', '@nacre/server'])
  consumer.write('main.ts', PROGRAM)
  consumer.write('main.cts', PROGRAM)
  consumer.write('dynamic.cts', "void import('nacre').then(({ Sandbox }) => console.log(typeof Sandbox))")
}, 120_000)

afterAll(() => consumer.remove())

describe('a strict TypeScript project compiles against nacre and runs', () => {
  it('with node16, without the DOM, and from CommonJS by a dynamic import', async () => {
    await compile('node16', ['main.ts', 'dynamic.cts'], { module: 'node16', lib: ['es2022'] })
    expect(await consumer.run('node', 'node16/main.js')).toBe(EXPECTED)
    expect(await consumer.run('node', 'node16/dynamic.cjs')).toBe('function\n')
  }, 120_000)

  it('with nodenext, and from CommonJS by require', async () => {
    await compile('nodenext', ['main.ts', 'main.cts'], { module: 'nodenext' })
    expect(await consumer.run('node', 'nodenext/main.js')).toBe(EXPECTED)
    expect(await consumer.run('node', 'nodenext/main.cjs')).toBe(EXPECTED)
  }, 120_000)

  it('without @types/node', async () => {
    const types = path.join(consumer.directory, 'node_modules/@types')
    renameSync(types, `${types}.away`)
    try {
      consumer.write('bare.ts', BARE)
      await compile('bare', ['bare.ts'], { module: 'nodenext', types: [] })
    } finally {
      renameSync(`${types}.away`, types)
    }
  }, 120_000)

  it('with TypeScript 5.4', async () => {
    const own = path.join(consumer.directory, 'oldest')
    const args = ['install', '--prefix', own, '--no-audit', '--no-fund', 'typescript@5.4.5']
    await consumer.run('npm', ...args)
    const options = { ...STRICT, module: 'nodenext', outDir: 'oldest-out' }
    consumer.write('oldest.json', JSON.stringify({ compilerOptions: options, files: ['main.ts'] }))
    await consumer.run('node', path.join(own, 'node_modules/typescript/bin/tsc'), '-p', 'oldest.json')
    expect(await consumer.run('node', 'oldest-out/main.js')).toBe(EXPECTED)
  }, 120_000)

  it('with bundler', async () => {
    await compile('bundler', ['main.ts'], { module: 'esnext', moduleResolution: 'bundler' })
    expect(await consumer.run('node', 'bundler/main.js')).toBe(EXPECTED)
  }, 120_000)
})
