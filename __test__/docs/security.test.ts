/** The table of attacks in docs/security.md names tests that there are, and all groups of attempts. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { groups } from '../isolation/attempts/index.js'

const root = path.dirname(path.dirname(__dirname))

it('each attack has a test, and each group of attempts is in the table', () => {
  const page = readFileSync(path.join(root, 'docs/security.md'), 'utf8')
  const [, rows = ''] = /\| attack .*\n\| --- .*\n((?:\|.*\n)+)/.exec(page) ?? []
  const named = rows
    .trim()
    .split('\n')
    .map((row) => (row.split('|').at(-2) ?? '').trim())
  expect(named.length).toBeGreaterThan(15)
  const tests = new Set(named.flatMap((cell) => cell.split(', ')).filter((name) => name !== 'none'))
  const isTest = (name: string) =>
    name in groups || existsSync(path.join(root, '__test__', `${name}.test.ts`))
  expect([...tests].filter((name) => !isTest(name))).toEqual([])
  expect(Object.keys(groups).filter((name) => !tests.has(name))).toEqual([])
})
