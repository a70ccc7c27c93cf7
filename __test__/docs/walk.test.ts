/** The walk of one command in CONTRIBUTING.md: short, and each step exists. */
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { readPage, root } from '../helpers/markdown.js'

/** Maximum number of steps: what a newcomer reads in one go. */
const MOST_STEPS = 30

const row = /^\| (\d+) \| `([^`]+)` \| `([^`]+)` \|/gm

/** Whether the text declares a function or a method of this name, in TypeScript, Rust or C. */
function declares(text: string, name: string): boolean {
  const inTypeScript = `(?:function|async|readonly) ${name}\\b|^  ${name}\\(`
  const inRust = `\\bfn ${name}\\b`
  const inC = `^[a-z][\\w ]*[ *]${name}\\(`
  return new RegExp(`${inTypeScript}|${inRust}|${inC}`, 'm').test(text)
}

it('the walk of one command names functions that exist, in few steps', () => {
  const steps = [...readPage('CONTRIBUTING.md').matchAll(row)]
  expect(steps.map(([, number]) => Number(number))).toEqual(steps.map((_, index) => index + 1))
  expect(steps.length).toBeGreaterThan(10)
  expect(steps.length).toBeLessThanOrEqual(MOST_STEPS)
  const missing = steps.filter(([, , file = '', name = '']) => {
    const full = path.join(root, file)
    return !existsSync(full) || !declares(readFileSync(full, 'utf8'), name)
  })
  expect(missing.map(([, , file, name]) => `${file}: ${name}`)).toEqual([])
})
