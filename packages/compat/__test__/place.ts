/** A server in this process, and sandboxes of the official SDK. */
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { type E2bOptions, type ServingE2b, serveE2b } from '@nacre/compat'
import { Sandbox, type SandboxOpts } from 'e2b'
import { expect } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'

export interface Place {
  server: ServingE2b
  root: string
  /** In the environment of everything that sandboxes of `create` start. */
  tag: string
  /** The options that point the SDK to the server. */
  connection: { apiKey: string; apiUrl: string; sandboxUrl: string }
  create(options?: SandboxOpts): Promise<Sandbox>
}

let places = 0

/** Runs a test. Afterwards nothing may be left of the sandboxes that ran. */
export async function withServer(
  test: (place: Place) => Promise<void>,
  options: E2bOptions = {},
): Promise<void> {
  const tag = `nacre-compat-${process.pid}-${++places}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const root = path.join(base, 'root')
  try {
    const server = await serveE2b({ port: 0, root, ...options })
    const connection = connectionOf(server)
    const create: Place['create'] = ({ envs, ...more } = {}) =>
      Sandbox.create({ ...connection, ...more, envs: { ...envs, NACRE_TEST_TAG: tag } })
    try {
      await test({ server, root, tag, connection, create })
    } finally {
      await server.close()
    }
    await expectNoProcess(tag)
    // Only paused sandboxes stay.
    expectRecords(root)
  } finally {
    for (const { pid } of proc.tagged(tag)) proc.kill(pid)
    rmSync(base, { recursive: true, force: true })
  }
}

/** Each sandbox has a record, and an archive if that has kept shells. */
export function expectRecords(root: string): void {
  const records = path.join(root, 'records')
  const files = readdirSync(path.join(root, 'sandboxes')).flatMap((id) => {
    const { kept } = JSON.parse(readFileSync(path.join(records, `${id}.json`), 'utf8'))
    return [`${id}.json`, ...(kept === undefined ? [] : [`${id}.nacre`])]
  })
  expect(readdirSync(records).sort()).toEqual(files.sort())
  for (const file of files) expect(statSync(path.join(records, file)).mode & 0o777).toBe(0o600)
}

export function connectionOf({ key, url }: ServingE2b): Place['connection'] {
  return { apiKey: key, apiUrl: url, sandboxUrl: url }
}

/** Runs a test in one sandbox. */
export function withSandbox(test: (sandbox: Sandbox, place: Place) => Promise<void>): Promise<void> {
  return withServer(async (place) => test(await place.create(), place))
}

export interface Reply {
  status: number
  text: string
}

/** A request with any headers. Node and Bun do not resolve names below localhost. */
export function request(url: string, options: http.RequestOptions & { body?: string } = {}): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const sent = http.request(url, { ...options, agent: false }, (reply) => {
      let text = ''
      reply.setEncoding('utf8').on('data', (data: string) => {
        text += data
      })
      reply.on('end', () => resolve({ status: reply.statusCode ?? 0, text }))
    })
    sent.on('error', reject).end(options.body)
  })
}
