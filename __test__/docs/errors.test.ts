/** docs/errors.md explains the error codes that the published types have, and no others. */

import { SandboxError, type SandboxErrorCode } from 'nacre'
import { expect, it } from 'vitest'
import { readPage } from '../helpers/markdown.js'

const types = readPage('index.d.ts')
const page = readPage('docs/errors.md')

/** The codes of a public type. */
function codesOf(type: string): string[] {
  const [, union = ''] = new RegExp(`^export type ${type} =((?:\\s*\\| '[\\w-]+')+)`, 'm').exec(types) ?? []
  return union.match(/[\w-]+/g) ?? []
}

/** The codes that a section of the page explains: with a cause, and with a fix. */
function explained(title: string): string[] {
  const [, section = ''] = page.split(`\n## ${title}\n`)
  const [own = ''] = section.split('\n## ')
  return Array.from(own.matchAll(/^### (\w+)\n\n[^*\n#].+\n\n\*\*Fix:\*\* .+$/gm), ([, code = '']) => code)
}

it.each([
  ['Errors at run time', () => [...codesOf('SandboxErrorCode'), 'ABORT_ERR']],
  // The page explains INVALID_ENV_NAME, which both classes have, once.
  ['Invalid arguments', () => codesOf('OptionErrorCode').filter((code) => code !== 'INVALID_ENV_NAME')],
  ['Errors of the native addon', () => codesOf('AddonErrorCode')],
])('each code of the section "%s" has its cause and its fix, in alphabetical order', (title, codes) => {
  expect(codes().length).toBeGreaterThan(2)
  expect(explained(title)).toEqual(codes().sort())
})

it('each kind of error has its meaning and examples of that kind', () => {
  const rows = [...page.matchAll(/^\| `([\w-]+)` \| [^|]+ \| ([A-Z_, ]+) \|$/gm)]
  expect(rows.map(([, kind]) => kind).sort()).toEqual(codesOf('ErrorKind').sort())
  const known = codesOf('SandboxErrorCode') as SandboxErrorCode[]
  for (const [, kind, examples = ''] of rows)
    for (const code of known.filter((code) => examples.split(', ').includes(code)))
      expect(new SandboxError(code, code).kind, code).toBe(kind)
})
