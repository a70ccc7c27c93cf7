/**
 * Writes docs/options.md and docs/errors.md from the tables in `dist/protocol`.
 *
 *   node scripts/option-docs.mjs [--check]      --check: fails when a page is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { calls } from '../dist/protocol/calls.js'
import { errorsPage } from '../dist/protocol/error-docs.js'
import { optionsPage } from '../dist/protocol/option-docs.js'

const PAGES = { 'options.md': optionsPage(calls), 'errors.md': errorsPage() }

for (const [name, page] of Object.entries(PAGES)) {
  const file = new URL(`../docs/${name}`, import.meta.url)
  if (!process.argv.includes('--check')) {
    writeFileSync(file, page)
  } else if (readFileSync(file, 'utf8') !== page) {
    console.error(`docs/${name} is out of date: run \`npm run docs:options\``)
    process.exit(1)
  }
}
