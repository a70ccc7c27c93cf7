/** Servers as clients start them, with the official clients. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'

export const MAIN = path.join(path.dirname(__dirname), 'dist', 'main.js')
export const ERAS = ['2025-11-25', '2026-07-28'] as const
export type Era = (typeof ERAS)[number]

export interface Reply {
  text: string
  isError: boolean
  data: Record<string, unknown>
}

export type Call = (name: string, input?: object, options?: CallOptions) => Promise<Reply>
export interface CallOptions {
  signal?: AbortSignal
  onprogress?: (progress: { progress: number; message?: string }) => void
}

/** A directory with names for a test, and the environment of its servers. */
export interface Base {
  /** In the environment of everything that the servers start. */
  tag: string
  directory: string
  env: Record<string, string>
}

let places = 0

/** Afterwards nothing may be left. */
export async function withBase(test: (base: Base) => Promise<void>): Promise<void> {
  const tag = `nacre-mcp-test-${process.pid}-${++places}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const directory = path.join(base, 'work')
  const temporary = path.join(base, 'tmp')
  for (const name of [directory, temporary]) mkdirSync(name)
  const { PATH = '', HOME = '', NACRE_NATIVE = '' } = process.env
  const env = { PATH, HOME, NACRE_NATIVE, TMPDIR: temporary, NACRE_TEST_TAG: tag }
  try {
    await test({ tag, directory, env })
    await expectNoProcess(tag, 20_000)
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(base, { recursive: true, force: true })
  }
}

export interface Options {
  era?: Era
  words?: string[]
  env?: Record<string, string>
}

export interface Place extends Base {
  client: Client
  call: Call
  /** What the server has written on standard error. */
  stderr(): string
}

/** A server over stdio, and its client. */
export function overStdio(test: (place: Place) => Promise<void>, options: Options = {}): Promise<void> {
  const { era = '2026-07-28', words = [], env = {} } = options
  return withBase(async (base) => {
    const transport = new StdioClientTransport({
      command: process.execPath,
      args: [MAIN, ...words],
      cwd: base.directory,
      env: { ...base.env, ...env },
      stderr: 'pipe',
    })
    let stderr = ''
    transport.stderr?.on('data', (data) => {
      stderr += data
    })
    const client = clientOf(era)
    await client.connect(transport)
    try {
      await test({ ...base, client, call: callsOf(client), stderr: () => stderr })
    } finally {
      await client.close()
    }
  })
}

export function clientOf(era: Era): Client {
  const mode = era === '2025-11-25' ? 'legacy' : { pin: era }
  return new Client({ name: 'test', version: '1' }, { versionNegotiation: { mode } })
}

interface Caller {
  callTool(
    params: { name: string; arguments: Record<string, unknown> },
    options?: CallOptions,
  ): Promise<Record<string, unknown>>
}

export function callsOf(client: unknown): Call {
  return async (name, input = {}, options) => {
    const result = await (client as Caller).callTool({ name, arguments: { ...input } }, options)
    const {
      content,
      isError = false,
      _meta,
    } = result as {
      content: { text: string }[]
      isError?: boolean
      _meta?: Record<string, Record<string, unknown>>
    }
    return { text: content[0]?.text ?? '', isError, data: _meta?.['nacre/data'] ?? {} }
  }
}

export interface Running {
  child: ChildProcess
  /** Writes on its standard input. */
  send(text: string): void
  stdout(): string
  stderr(): string
  /** The exit code, or the name of the signal. */
  ended: Promise<number | string>
  /** Waits until standard error matches, and returns the first group. */
  printed(pattern: RegExp): Promise<string>
}

/** Starts a program; by default the server with these words. */
export function start(
  { env, directory }: Base,
  words: string[],
  program = [process.execPath, MAIN],
  input: 'pipe' | number = 'pipe',
): Running {
  const [command = '', ...args] = [...program, ...words]
  const child = spawn(command, args, { cwd: directory, env, stdio: [input, 'pipe', 'pipe'] })
  const texts = { stdout: '', stderr: '' }
  for (const name of ['stdout', 'stderr'] as const)
    child[name]?.setEncoding('utf8').on('data', (data: string) => {
      texts[name] += data
    })
  child.stdin?.on('error', () => {})
  const send = (text: string) => void child.stdin?.write(text)
  const ended = once(child, 'close').then(([code, signal]) => code ?? signal)
  const printed = (pattern: RegExp) =>
    until(
      () => {
        const found = pattern.exec(texts.stderr)
        return found === null ? undefined : (found[1] ?? found[0])
      },
      () => `not printed: ${pattern}, but ${JSON.stringify(texts)}`,
    )
  return { child, send, ended, printed, stdout: () => texts.stdout, stderr: () => texts.stderr }
}

export interface HttpPlace extends Base {
  url: string
  token: string
  server: Running
  /** Connects another client. It is closed after the test. */
  connect(era: Era): Promise<{ client: Client; call: Call }>
}

/** A server over HTTP. */
export function overHttp(test: (place: HttpPlace) => Promise<void>, words: string[] = []): Promise<void> {
  return withBase(async (base) => {
    const server = start(base, ['--port', '0', ...words])
    const clients: Client[] = []
    try {
      const url = await server.printed(/listens on (\S+)/)
      const token = await server.printed(/token: (\S+)/)
      const connect = async (era: Era) => {
        const client = clientOf(era)
        const headers = { authorization: `Bearer ${token}` }
        await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } }))
        clients.push(client)
        return { client, call: callsOf(client) }
      }
      await test({ ...base, url, token, server, connect })
      for (const client of clients) await client.close()
    } finally {
      server.child.kill('SIGTERM')
      await server.ended
    }
  })
}

/** Waits until a program with exactly these words runs. */
export function untilRuns(words: string): Promise<void> {
  return proc.untilRuns(words)
}

/** Waits until no program has these words. */
export async function untilGone(words: string): Promise<void> {
  await until(
    () => (proc.runs(words) ? undefined : true),
    () => `still runs: ${words}`,
  )
}
