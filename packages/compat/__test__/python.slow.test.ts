/** The official Python SDKs of E2B, which get their address from the environment. */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { withServer } from './place.js'

const INSTALL_MS = 300_000
const RUN_MS = 120_000
const sources = path.join(__dirname, 'python')
let environment: string

beforeAll(() => {
  environment = mkdtempSync(path.join(os.tmpdir(), 'nacre-e2b-python-'))
  const options = { timeout: INSTALL_MS, stdio: 'pipe' as const }
  try {
    execFileSync('python3', ['-m', 'venv', environment], options)
  } catch (cause) {
    throw new Error('This test needs Python 3.10 or newer with the module venv (on Debian: python3-venv).', {
      cause,
    })
  }
  const requirements = ['--no-deps', '--requirement', path.join(sources, 'requirements.txt')]
  execFileSync(
    path.join(environment, 'bin/python'),
    ['-m', 'pip', 'install', '--quiet', ...requirements],
    options,
  )
}, INSTALL_MS)

afterAll(() => rmSync(environment, { recursive: true, force: true }))

it('run against this machine when only the environment changes', { timeout: RUN_MS }, () =>
  withServer(async ({ server }) => {
    const python = path.join(environment, 'bin/python')
    const env = { ...process.env, ...server.env }
    const words = [path.join(sources, 'calls.py')]
    const { stdout } = await promisify(execFile)(python, words, { env, timeout: RUN_MS })
    const parts = ['commands', 'terminals', 'files', 'life', 'interpreter', 'asynchronous']
    expect(stdout.trim().split('\n')).toEqual(parts)
  }),
)
