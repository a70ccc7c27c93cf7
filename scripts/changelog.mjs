/**
 * Prints the notes of a release: the subjects of the commits since the previous tag.
 *
 *   node scripts/changelog.mjs v1.2.3
 */
import { execFileSync } from 'node:child_process'
import { main, Problem } from './packages/problem.mjs'

await main(() => {
  const [tag] = process.argv.slice(2)
  if (!/^v\d/.test(tag ?? '')) throw new Problem('Name a tag, like v1.2.3.')
  const git = (...args) =>
    execFileSync('git', args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim()
  let from = []
  try {
    from = [`${git('describe', '--tags', '--abbrev=0', '--match', 'v*', `${tag}^`)}..${tag}`]
  } catch {
    from = [tag]
  }
  for (const subject of git('log', '--no-merges', '--format=%s', ...from).split('\n'))
    console.log(`- ${subject}`)
})
