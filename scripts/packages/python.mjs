/** Packages of the Python package index, each in its own environment in the cache. */
import { execFileSync } from 'node:child_process'
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { Problem } from './problem.mjs'

/** Installs packages, such as `ziglang==0.15.2`, and returns the environment's Python. */
export function installPython(environment, ...requirements) {
  const options = { stdio: ['ignore', 'ignore', 'inherit'], timeout: 300_000 }
  const python = path.join(environment, 'bin', 'python')
  try {
    mkdirSync(environment, { recursive: true })
    execFileSync('python3', ['-m', 'venv', environment], options)
    execFileSync(python, ['-m', 'pip', 'install', '--quiet', ...requirements], options)
    return python
  } catch (error) {
    throw new Problem(
      `${requirements.join(', ')} cannot be installed with Python's pip: ${error.message.split('\n')[0]}`,
    )
  }
}
