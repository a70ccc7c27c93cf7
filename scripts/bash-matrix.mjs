/**
 * Tests the builtin and the conformance tables with the bash versions of Debian's releases.
 *
 *   node scripts/bash-matrix.mjs [--only SUITE]... [--shell PATH]...      after a debug build
 *
 * A bash that needs a newer C library gets its release's own. A version that cannot be fetched is skipped with one
 * sentence. `--shell` tests other executables instead.
 */
import { spawnSync } from 'node:child_process'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ask, fetchBash, firstLine, SUITES } from './debian.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const { values } = parseArgs({
  options: { only: { type: 'string', multiple: true }, shell: { type: 'string', multiple: true } },
})
const rows = []
for (const shell of values.shell ?? []) test(shell, shell)
if (values.shell === undefined) {
  for (const suite of values.only ?? Object.keys(SUITES)) {
    try {
      test(suite, fetchBash(suite))
    } catch (error) {
      rows.push([suite, '-', `skipped: ${firstLine(error)}`])
    }
  }
}
console.log('')
for (const row of rows) console.log(row.map((cell, at) => cell.padEnd([10, 20][at] ?? 0)).join(' '))
process.exit(rows.some(([, , result]) => result.includes('FAILED')) ? 1 : 0)

/** Runs both kinds of tests with one bash. */
function test(name, shell) {
  const version = ask(shell)
  if (version === undefined) {
    rows.push([name, '-', `skipped: ${shell} does not run on this machine`])
    return
  }
  console.log(`\n== ${name}: bash ${version}`)
  const env = { ...process.env, NACRE_NATIVE: 'debug', BASH_UNDER_TEST: shell, NACRE_TEST_BASH: shell }
  const passes = (program, ...args) =>
    spawnSync(program, args, { cwd: root, env, stdio: ['ignore', 'inherit', 'inherit'] }).status === 0
  const results = {
    builtin: passes('cargo', 'test', '-q', '--locked', '-p', 'nacre-shell-builtin'),
    conformance: passes('node_modules/.bin/vitest', 'run', '--reporter=dot', '__test__/conformance'),
  }
  const words = Object.entries(results).map(([kind, passed]) => `${kind} ${passed ? 'passed' : 'FAILED'}`)
  rows.push([name, version, words.join(', ')])
}
