/** Pages of the site that are files outside docs/. */
import { readFileSync } from 'node:fs'
import path from 'node:path'

const BLOB = 'https://github.com/nacre-dev/nacre/blob/main'

/** Turns a file into a page: its links to other files lead to the repository. */
export function copiedPage(root, name) {
  const folder = path.dirname(name)
  return readFileSync(path.join(root, name), 'utf8').replaceAll(
    /\]\((?![a-z]+:|#)([^)]+)\)/g,
    (_, link) => `](${BLOB}/${path.join(folder, link)})`,
  )
}
