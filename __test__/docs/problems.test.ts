/** The last cell of each problem in docs/problems.md is a test that there is. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { readPage, root } from '../helpers/markdown.js'

it('each problem names a test', () => {
  const rows = readPage('docs/problems.md').match(/^\| (?!problem|---).*\|$/gm) ?? []
  expect(rows.length).toBeGreaterThan(20)
  const named = rows.map((row) => /\| `([^`]+)` \|$/.exec(row)?.[1] ?? row)
  expect(named.filter((name) => !existsSync(path.join(root, name)))).toEqual([])
})
