/**
 * What nacre does, shown on real work in a temporary directory. `npm run demo` builds everything first.
 *
 * The demo checks itself: the exit code is 0 only when everything was as it should be. It needs bash, git and node on
 * PATH, no terminal and no network, and leaves nothing behind.
 */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { oneCommand } from './chapters/one-command.mjs'
import { realWork } from './chapters/real-work.mjs'
import { sideBySide } from './chapters/side-by-side.mjs'
import { survival } from './chapters/survival.mjs'
import { times } from './chapters/times.mjs'
import { Story } from './story.mjs'

/** True when the program can be run. */
function isThere(program) {
  try {
    execFileSync(program, ['--version'], { stdio: 'ignore' })
    return true
  } catch {
    return false
  }
}

/** Shows that the end of the sandbox is the end of what it started. */
async function farewell(story, sandbox) {
  story.title('The end of the sandbox is the end of everything it started')
  const { stdout } = await story.run(sandbox, 'setsid sleep 1000 & echo $!')
  const process = `/proc/${stdout.trim()}`
  story.check('a background process runs, in a session of its own', existsSync(process), stdout)
  await sandbox.destroy()
  story.check('it is gone after destroy()', !existsSync(process), process)
}

async function main() {
  const begun = performance.now()
  const story = new Story()
  const directory = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-demo-')))
  const sandbox = new Sandbox({
    cwd: directory,
    env: { GIT_CONFIG_GLOBAL: '/dev/null', NODE_OPTIONS: undefined },
  })
  try {
    const { shellVersion, cgroup } = await sandbox.capabilities()
    const held = cgroup === 'v2' ? 'held in control groups' : 'followed by the subreaper'
    console.log(`nacre with bash ${shellVersion}; processes are ${held}.`)
    for (const chapter of [realWork, survival, oneCommand, sideBySide, times, farewell]) {
      await chapter(story, sandbox, directory)
    }
  } finally {
    await sandbox.destroy()
    rmSync(directory, { recursive: true, force: true })
  }
  story.end((performance.now() - begun) / 1000)
  return story.failures === 0 ? 0 : 1
}

const missing = ['git', 'node'].find((program) => !isThere(program))
if (missing === undefined) {
  process.exitCode = await main()
} else {
  console.error(
    `The demo works in a git repository with node, and there is no ${missing} on PATH: install it.`,
  )
  process.exitCode = 1
}
