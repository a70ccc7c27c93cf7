/** The page for users of the Cloudflare Sandbox SDK: its examples are code for that SDK, too. pages.test.ts runs them. */
import path from 'node:path'
import { expect, it } from 'vitest'
import { BASE, compile } from '../helpers/compile.js'
import { readPage, root, runnable } from '../helpers/markdown.js'

const [SAME = '', OTHER = ''] = readPage('docs/cloudflare.md').split('## Other names')
/** The same declarations as of the package. */
const THEIRS = path.relative(BASE, path.join(root, '__test__/types/cloudflare-sandbox.js'))

function errors(section: string): string[] {
  const files = runnable(section).map(({ line, code }): [string, string] => {
    const theirs = code.replace("from 'nacre'", `from '${THEIRS}'`)
    return [path.join(BASE, `${line}.ts`), `${theirs}\nexport {}`]
  })
  return compile(new Map(files))
}

it('has at least 20 examples that compile for both', () => {
  expect(SAME.match(/^ *\/\/ [A-Z].*$/gm)?.length).toBeGreaterThanOrEqual(20)
  expect(errors(SAME)).toEqual([])
}, 60_000)

it('shows other names apart', () => {
  expect(errors(OTHER).length).toBeGreaterThan(0)
}, 60_000)
