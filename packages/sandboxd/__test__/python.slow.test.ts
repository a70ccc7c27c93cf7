/** The official Python client of agent-sandbox against sandboxd. */
import { execFile, execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, it } from 'vitest'
import { startCluster } from './cluster.js'
import { withSandboxd } from './place.js'

const sources = path.join(__dirname, 'python')
const target = path.resolve(__dirname, '../../../target')

const INSTALL_MS = 300_000
const RUN_MS = 60_000

/** The Python of an environment with the client, which is made once for each list of requirements. */
function installedPython(): string {
  const requirements = path.join(sources, 'requirements.txt')
  const hash = createHash('sha256').update(readFileSync(requirements)).digest('hex').slice(0, 16)
  const environment = path.join(target, `agent-sandbox-client-${hash}`)
  const python = path.join(environment, 'bin', 'python')
  const isComplete = path.join(environment, 'complete')
  if (existsSync(isComplete)) return python
  rmSync(environment, { recursive: true, force: true })
  const options = { timeout: INSTALL_MS, stdio: 'pipe' as const }
  try {
    execFileSync('python3', ['-m', 'venv', environment], options)
  } catch (cause) {
    throw new Error('This test needs Python 3.11 or newer with the module venv (on Debian: python3-venv).', {
      cause,
    })
  }
  execFileSync(
    python,
    ['-m', 'pip', 'install', '--quiet', '--no-deps', '--requirement', requirements],
    options,
  )
  writeFileSync(isComplete, '')
  return python
}

it('answers every call of k8s-agent-sandbox 1.0.8', { timeout: INSTALL_MS + RUN_MS }, async () => {
  const python = installedPython()
  const cluster = await startCluster()
  try {
    await withSandboxd(async ({ sandboxd: { restPort, grpcPort } }) => {
      const words = [path.join(sources, 'calls.py'), cluster.url, `${restPort}`, `${grpcPort}`]
      const { stdout } = await promisify(execFile)(python, words, { timeout: RUN_MS })
      const modes = ['in-cluster-pod-ip', 'in-cluster-service']
      const lines = modes.flatMap((mode) => [
        ...['commands', 'files', 'lifecycle'],
        `synchronous by ${mode}`,
        `asynchronous by ${mode}`,
      ])
      expect(stdout.trim().split('\n')).toEqual(['legacy by its URL', ...lines])
    })
  } finally {
    await cluster.close()
  }
})
