/** Runs a pipeline. Exits with 0 if it passed, 1 if a step failed, and 2 for a usage error. */
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { runPipeline } from './runner.js'

const file = process.argv[2]
if (file === undefined) {
  console.error('usage: node main.js <pipeline.js>')
  process.exit(2)
}
const { default: pipeline } = await import(pathToFileURL(path.resolve(file)).href)
const { steps, annotations } = await runPipeline(pipeline)

console.log('\nSummary')
for (const { name, outcome, seconds } of steps) console.log(`  ${name}: ${outcome} (${seconds} s)`)
for (const { level, place, message } of annotations) console.log(`  ${level} ${place}: ${message}`)
process.exitCode = steps.some(({ failed }) => failed) ? 1 : 0
