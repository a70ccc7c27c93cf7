/**
 * Writes docs/options.md from the option tables in `dist/protocol`.
 *
 *   node scripts/option-docs.mjs [--check]      --check: fails when the file is not up to date
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { calls } from '../dist/protocol/calls.js'
import { optionsPage } from '../dist/protocol/option-docs.js'

const file = new URL('../docs/options.md', import.meta.url)
const page = optionsPage(calls)
if (!process.argv.includes('--check')) {
  writeFileSync(file, page)
} else if (readFileSync(file, 'utf8') !== page) {
  console.error('docs/options.md is out of date: run `npm run docs:options`')
  process.exit(1)
}
