/**
 * Builds the documentation site from docs/ into docs/.vitepress/dist, for any static host. Installs its tools into
 * docs/node_modules if they are missing or outdated. A warning or a dead link fails the build. Programs find each page as
 * plain Markdown too, and a list of them in llms.txt.
 *
 *   node scripts/docs-site.mjs            DOCS_BASE=/nacre/ for a site below a path
 */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { navigation } from '../docs/.vitepress/navigation.mjs'
import { main, Problem } from './packages/problem.mjs'
import { finishApi } from './site/api.mjs'
import { cliPages } from './site/cli.mjs'
import { copiedPage } from './site/copies.mjs'
import { httpPages } from './site/http.mjs'
import { findDeadLinks } from './site/links.mjs'
import { optionPages } from './site/options.mjs'
import { writePlainPages } from './site/plain.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const docs = path.join(root, 'docs')
const reference = path.join(docs, 'reference')

/** Runs a program in docs/ and returns what it printed. */
function run(program, ...args) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd: docs, encoding: 'utf8' })
  const output = `${stdout}${stderr}`
  if (status !== 0) throw new Problem(`${path.basename(program)} ${args.join(' ')} failed:\n${output}`)
  return output
}

/** Runs a tool of docs/node_modules. */
function runTool(name, ...args) {
  const output = run(path.join(docs, 'node_modules/.bin', name), ...args)
  if (/\bwarn(ing)?\b/i.test(output)) throw new Problem(`${name} printed a warning:\n${output}`)
}

/** Installs the tools, unless they match the lock file. */
function installTools() {
  const lock = readFileSync(path.join(docs, 'package-lock.json'), 'utf8')
  const stamp = path.join(docs, 'node_modules/.nacre-lock')
  try {
    if (readFileSync(stamp, 'utf8') === lock) return
  } catch {
    // Nothing is installed yet.
  }
  run('npm', 'ci', '--ignore-scripts', '--no-audit', '--no-fund')
  writeFileSync(stamp, lock)
}

/** Writes the pages that are generated from code and from files outside docs/. */
async function writeReference() {
  rmSync(reference, { recursive: true, force: true })
  mkdirSync(reference)
  runTool('typedoc', '--options', 'typedoc.json')
  finishApi(docs, path.join(reference, 'api'))
  writePages(path.join(docs, 'options'), optionPages)
  writePages(reference, {
    ...(await cliPages()),
    ...httpPages(),
    'changelog.md': copiedPage(root, 'CHANGELOG.md'),
    'benchmark.md': copiedPage(root, 'bench/RESULTS.md', '## Everything'),
  })
}

function writePages(directory, pages) {
  for (const [name, page] of Object.entries(pages)) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true })
    writeFileSync(path.join(directory, name), page)
  }
}

await main(async () => {
  installTools()
  await writeReference()
  runTool('vitepress', 'build')
  const base = process.env.DOCS_BASE ?? '/'
  const site = path.join(docs, '.vitepress/dist')
  const { name, description: summary } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const api = JSON.parse(readFileSync(path.join(reference, 'api/typedoc-sidebar.json'), 'utf8'))
  writePlainPages(docs, site, { base, name, summary, navigation: navigation(api) })
  const { pages, links, dead } = findDeadLinks(site, base)
  if (dead.length > 0) throw new Problem(`The site has dead links:\n${dead.join('\n')}`)
  console.log(`docs/.vitepress/dist: ${pages} pages, ${links} internal links`)
})
