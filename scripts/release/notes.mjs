/**
 * Prints the notes of a release: its section of CHANGELOG.md.
 *
 *   node scripts/release/notes.mjs v1.2.3
 */
import { readFileSync } from 'node:fs'
import path from 'node:path'
import { main, Problem } from '../packages/problem.mjs'

/** Throws Problem if there is none. */
export function notes(root, version) {
  const sections = readFileSync(path.join(root, 'CHANGELOG.md'), 'utf8').split(/^## /m)
  const found = sections.find((section) => section.startsWith(`${version}\n`))
  if (found === undefined) throw new Problem(`CHANGELOG.md has no section '## ${version}'.`)
  return found.slice(version.length).trim()
}

if (process.argv[1] === import.meta.filename) {
  await main(() => {
    const [tag = ''] = process.argv.slice(2)
    if (!/^v\d/.test(tag)) throw new Problem('Name a tag, like v1.2.3.')
    console.log(notes(path.dirname(path.dirname(import.meta.dirname)), tag.slice(1)))
  })
}
