/**
 * Two machines, each a directory with a clone of the project, and a volume that both have. The README has the same with two
 * containers.
 */
import { execFileSync } from 'node:child_process'
import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const agent = fileURLToPath(new URL('agent.js', import.meta.url))
const base = await mkdtemp(path.join(os.tmpdir(), 'moves-'))
const archive = path.join(base, 'agent-7.nacre')

/** Runs the agent on a machine. */
function on(machine, what) {
  const env = { ...process.env, MACHINE: machine, STATE_DIR: path.join(base, machine, 'state') }
  const cwd = path.join(base, machine, 'project')
  execFileSync(process.execPath, [agent, what, archive], { cwd, env, stdio: 'inherit' })
}

try {
  for (const machine of ['one', 'two']) {
    const source = path.join(base, machine, 'project/src')
    await mkdir(source, { recursive: true })
    await writeFile(path.join(source, 'greet.sh'), 'echo "hello"\n')
  }
  on('one', 'begin')
  await rm(path.join(base, 'one'), { recursive: true })
  on('two', 'go-on')
  const committed = await readFile(path.join(base, 'two/project/src/greet.sh'), 'utf8')
  console.log(`committed: ${committed.trimEnd()}`)
} finally {
  await rm(base, { recursive: true, force: true })
}
