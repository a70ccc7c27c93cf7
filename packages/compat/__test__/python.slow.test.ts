/** The official Python SDKs, which get their address from the environment. */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withDaytona } from './daytona-place.js'
import { withServer } from './place.js'

const INSTALL_MS = 300_000
const RUN_MS = 120_000
const sources = path.join(__dirname, 'python')
/** Whether to test the newest SDKs instead of the pinned ones. */
const isNewest = process.env.NACRE_TEST_NEWEST === 'yes'

type Variables = Readonly<Record<string, string>>

describe.each([
  {
    name: 'E2B',
    packages: ['e2b', 'e2b-code-interpreter'],
    requirements: 'requirements.txt',
    program: 'calls.py',
    parts: ['commands', 'terminals', 'files', 'life', 'interpreter', 'asynchronous'],
    serve: (test: (env: Variables) => Promise<void>) => withServer(({ server }) => test(server.env)),
  },
  {
    name: 'Daytona',
    packages: ['daytona'],
    requirements: 'daytona-requirements.txt',
    program: 'daytona_calls.py',
    parts: ['commands', 'sessions', 'terminals', 'files', 'git', 'life', 'asynchronous'],
    serve: (test: (env: Variables) => Promise<void>) => withDaytona(({ server }) => test(server.env)),
  },
])('the SDK of $name', ({ packages, requirements, program, parts, serve }) => {
  let environment: string

  beforeAll(() => {
    environment = mkdtempSync(path.join(os.tmpdir(), 'nacre-compat-python-'))
    const options = { timeout: INSTALL_MS, stdio: 'pipe' as const }
    try {
      execFileSync('python3', ['-m', 'venv', environment], options)
    } catch (cause) {
      throw new Error(
        'This test needs Python 3.10 or newer with the module venv (on Debian: python3-venv).',
        { cause },
      )
    }
    const words = isNewest ? packages : ['--no-deps', '--requirement', path.join(sources, requirements)]
    execFileSync(path.join(environment, 'bin/python'), ['-m', 'pip', 'install', '--quiet', ...words], options)
  }, INSTALL_MS)

  afterAll(() => rmSync(environment, { recursive: true, force: true }))

  it('runs against this machine when only the environment changes', { timeout: RUN_MS }, () =>
    serve(async (variables) => {
      const python = path.join(environment, 'bin/python')
      const env = { ...process.env, ...variables }
      const words = [path.join(sources, program)]
      const { stdout } = await promisify(execFile)(python, words, { env, timeout: RUN_MS })
      expect(stdout.trim().split('\n')).toEqual(parts)
    }),
  )
})
