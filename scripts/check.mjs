/**
 * `npm run check`: style, structure, generated files and types, beside each other. Prints the output of each when it has ended,
 * and exits with 1 if one of them has failed.
 */
import { execFile } from 'node:child_process'
import { availableParallelism } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

/** npm scripts, the longest first. */
const CHECKS = ['check:types', 'check:generated', 'lint', 'check:structure']

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

function run(name) {
  const words = ['run', '--silent', name]
  return new Promise((resolve) => {
    execFile('npm', words, { cwd: root, maxBuffer: 1e8 }, (error, stdout, stderr) => {
      const output = `${stdout}${stderr}`.trim()
      console.log(`${error ? '✗' : '✓'} npm run ${name}${output && `\n${output}`}`)
      if (error) process.exitCode = 1
      resolve()
    })
  })
}

const waiting = [...CHECKS]
async function work() {
  for (let name = waiting.shift(); name; name = waiting.shift()) await run(name)
}
await Promise.all(Array.from({ length: availableParallelism() }, work))
