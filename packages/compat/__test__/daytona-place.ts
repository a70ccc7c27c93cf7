/** A server in this process, and sandboxes of the official SDK of Daytona. */
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type CreateSandboxFromSnapshotParams, Daytona, type Sandbox } from '@daytonaio/sdk'
import { type DaytonaOptions, type ServingDaytona, serveDaytona } from '@nacre/compat'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { expectRecords } from './place.js'

export interface Place {
  server: ServingDaytona
  root: string
  /** In the environment of everything that sandboxes of `create` start. */
  tag: string
  daytona: Daytona
  create(params?: CreateSandboxFromSnapshotParams): Promise<Sandbox>
}

let places = 0

/** Runs a test. Afterwards no process may be left, and only sandboxes with a record. */
export async function withDaytona(
  test: (place: Place) => Promise<void>,
  options: DaytonaOptions = {},
): Promise<void> {
  const tag = `nacre-daytona-${process.pid}-${++places}`
  const base = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const root = options.root ?? path.join(base, 'root')
  try {
    const server = await serveDaytona({ port: 0, ...options, root })
    await using daytona = new Daytona({ apiKey: server.key, apiUrl: server.url })
    const create: Place['create'] = ({ envVars, ...more } = {}) =>
      daytona.create({ ...more, envVars: { ...envVars, NACRE_TEST_TAG: tag } })
    try {
      await test({ server, root, tag, daytona, create })
    } finally {
      await server.close()
    }
    await expectNoProcess(tag)
    expectRecords(root)
  } finally {
    for (const { pid } of proc.tagged(tag)) proc.kill(pid)
    rmSync(base, { recursive: true, force: true })
  }
}

/** Runs a test in one sandbox. */
export function withDaytonaSandbox(test: (sandbox: Sandbox, place: Place) => Promise<void>): Promise<void> {
  return withDaytona(async (place) => test(await place.create(), place))
}

export function directories(root: string): string[] {
  return readdirSync(path.join(root, 'sandboxes'))
}
