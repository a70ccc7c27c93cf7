/**
 * Checks that a tag matches the version in package.json.
 *
 *   node scripts/check-tag.mjs v1.2.3
 */
import { readFileSync } from 'node:fs'
import { main, Problem } from './packages/problem.mjs'

await main(() => {
  const { version } = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const [tag] = process.argv.slice(2)
  if (tag !== `v${version}`) throw new Problem(`The tag is ${tag}, and package.json has version ${version}.`)
})
