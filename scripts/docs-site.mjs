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
import { slugify } from '../docs/.vitepress/slugify.mjs'
import { main, Problem } from './packages/problem.mjs'
import { cliPage } from './site/cli.mjs'
import { copiedPage } from './site/copies.mjs'
import { httpPage } from './site/http.mjs'
import { findDeadLinks } from './site/links.mjs'
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
  nameModules()
  const pages = {
    'cli.md': await cliPage(),
    'http.md': httpPage(),
    'changelog.md': copiedPage(root, 'CHANGELOG.md'),
    'benchmark.md': copiedPage(root, 'bench/RESULTS.md'),
  }
  for (const [name, page] of Object.entries(pages)) writeFileSync(path.join(reference, name), page)
}

/**
 * typedoc names a module by its file; readers know the entry points of the package. In the lists of a module, each entry gets
 * one sentence, and its groups in the sidebar lead to these lists.
 */
function nameModules() {
  const names = {
    index: 'nacre',
    client: 'nacre/client',
    container: 'nacre/container',
    engine: 'nacre/engine',
    otel: 'nacre/otel',
    'packages/compat': '@nacre/compat',
    'packages/console': '@nacre/console',
    'packages/fleet': '@nacre/fleet',
    'packages/queue': '@nacre/queue',
    'packages/remote-jobs': '@nacre/remote-jobs',
    'packages/server': '@nacre/server',
    'packages/tools': '@nacre/tools',
  }
  const sidebar = path.join(reference, 'api/typedoc-sidebar.json')
  const items = JSON.parse(readFileSync(sidebar, 'utf8'))
  const modules = items.flatMap((item) =>
    item.text === 'packages'
      ? item.items.map((one) => ({ ...one, text: names[`packages/${one.text}`] }))
      : [{ ...item, text: names[item.text] }],
  )
  for (const { link, items } of modules)
    for (const group of items) group.link = `${link}#${slugify(group.text)}`
  writeFileSync(sidebar, JSON.stringify(modules))
  const list = path.join(reference, 'api/index.md')
  const text = readFileSync(list, 'utf8').replaceAll(/\| \[(.+?)\]/g, (_, name) => `| [${names[name]}]`)
  writeFileSync(list, firstSentences(text))
  for (const [file, name] of Object.entries(names)) {
    const page = path.join(reference, 'api', file, 'index.md')
    writeFileSync(page, firstSentences(readFileSync(page, 'utf8').replace(/^# .*$/m, `# ${name}`)))
  }
}

/** Shortens the rows of a list, which begin with a link. */
function firstSentences(text) {
  return text.replaceAll(/^(\| \[.*?\]\(.*?\) \| .*?\.) .*\|$/gm, '$1 |')
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
