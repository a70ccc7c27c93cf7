/** Pages of the site that are files outside docs/. */
import { readFileSync } from 'node:fs'
import path from 'node:path'

const BLOB = 'https://github.com/nacre-dev/nacre/blob/main'

/**
 * Turns a file into a page: its links to other files lead to the repository. Of a long file, the page has what is in front of
 * a heading, and a link.
 */
export function copiedPage(root, name, end) {
  const folder = path.dirname(name)
  const [text, rest] = readFileSync(path.join(root, name), 'utf8').split(`\n${end}\n`)
  const more = rest === undefined ? '' : `\n[The whole file](${BLOB}/${name}) has more.\n`
  return `${text}${more}`.replaceAll(
    /\]\((?![a-z]+:|#)([^)]+)\)/g,
    (_, link) => `](${BLOB}/${path.join(folder, link)})`,
  )
}
