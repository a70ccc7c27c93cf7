/**
 * Writes docs/options.md and docs/options/, from the tables in `dist` and the comments on their interfaces.
 *
 *   node scripts/option-docs.mjs [--check]      --check: fails when a file is out of date
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { calls as own } from '../dist/protocol/calls.js'
import { slugify } from '../docs/.vitepress/slugify.mjs'
import { companions } from './packages/companions.mjs'
import { DEFAULT, LITERAL, readTables } from './texts.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const packages = companions(root, 'lib/options.ts')
const tables = await readTables(packages)
const calls = [...own]
for (const name of packages) calls.push(...(await import(`../packages/${name}/dist/options.js`)).calls)

/** The pages of docs/options. Each has the calls from this one on, until the next page begins. */
const PAGES = [
  { page: 'sandbox', title: 'Options of sandboxes and sessions', from: 'new Sandbox' },
  { page: 'commands', title: 'Options of commands', from: 'exec and execStream' },
  { page: 'processes', title: 'Options of processes and services', from: 'startProcess' },
  {
    page: 'waits',
    title: 'Options of kills, waits and logs',
    from: 'kill of execStream, and session.killCommand',
  },
  { page: 'files', title: 'Options of files, jobs and workspaces', from: 'files.read' },
  { page: 'fleets', title: 'Options of compatible servers, fleets and queues', from: 'serveE2b' },
  { page: 'servers', title: 'Options of remote jobs, servers and tools', from: 'createRemoteJobs' },
]

const NOTE = '<!-- `npm run docs:options` writes this page from the tables and comments in lib/calls. -->'

const HEAD = `# Options

${NOTE}

Look up the options of a call: their names, defaults, accepted values and meanings.

\`\`\`js run
import { Sandbox } from 'nacre'

const sandbox = new Sandbox({ timeout: 60_000 })
console.log((await sandbox.exec('pwd', { cwd: '/usr', timeout: 5_000 })).stdout.trim()) // /usr
await sandbox.destroy()
\`\`\`

An option with the value \`undefined\` counts as omitted. An unknown option or a value out of bounds is rejected with an
\`OptionError\` before anything runs.

Options marked with * are not part of the HTTP API. \`SandboxClient\` supports them all: it runs callbacks, \`lines\` and
\`verbose\` itself, and sends a separate request when \`signal\` is aborted.
`

/** docs/options.md: where the options of each call are. */
function overview() {
  const lines = PAGES.map(({ page, title }, index) => {
    const links = callsOf(index).map(({ name }) => `[${name}](options/${page}.md#${slugify(name)})`)
    return `- [${title}](options/${page}.md): ${links.join('; ')}\n`
  })
  return `${HEAD}\n${lines.join('')}`
}

function callsOf(index) {
  const [start, end] = [PAGES[index], PAGES[index + 1]].map((page) =>
    calls.findIndex(({ name }) => name === page?.from),
  )
  return calls.slice(start, end === -1 ? undefined : end)
}

/** A page of docs/options: every option of its calls. */
function optionsPage({ title }, index) {
  const own = callsOf(index)
  const sections = own.map(
    (call, place) => `## ${call.name}\n\n${likeBefore(call, own[place - 1]) ?? tableOf(call)}`,
  )
  const intro = 'Look up an option by its name. [Options](../options.md) explains the tables.'
  return [`# ${title}\n\n${NOTE}\n\n${intro}\n`, ...sections].join('\n')
}

/** A sentence instead of a table whose rows are all in the one before it. */
function likeBefore(call, before) {
  if (before === undefined) return undefined
  const [rows, known] = [rowsOf(call), rowsOf(before)]
  if (rows.length < 10 || !rows.every((row) => known.includes(row))) return undefined
  const missing = Object.keys(before.table).filter((name) => !(name in call.table))
  return `The options of [${before.name}](#${slugify(before.name)}), without ${missing.map((name) => `\`${name}\``).join(' and ')}.\n`
}

function tableOf(call) {
  return ['| option | default | values | meaning |', '| --- | --- | --- | --- |', ...rowsOf(call), ''].join(
    '\n',
  )
}

function rowsOf({ table, local: isLocal = false }) {
  const { members } = tables.get(table)
  return Object.entries(table).map(([name, { json, bounds }]) => {
    const { text, isRequired } = members.get(name)
    const stated = DEFAULT.exec(text)?.[1] ?? (isRequired ? 'required' : 'none')
    const mark = json === undefined && !isLocal ? ' *' : ''
    const shown = stated.replace(LITERAL, '`$1`')
    const cells = [`\`${name}\`${mark}`, shown, bounds, text.replace(DEFAULT, '').trim()]
    return `| ${cells.map((cell) => cell.replaceAll('|', '\\|')).join(' | ')} |`
  })
}

const FILES = {
  'docs/options.md': overview(),
  ...Object.fromEntries(
    PAGES.map((page, index) => [`docs/options/${page.page}.md`, optionsPage(page, index)]),
  ),
}

for (const [name, text] of Object.entries(FILES)) {
  const file = path.join(root, name)
  if (!process.argv.includes('--check')) {
    writeFileSync(file, text)
  } else if (readFileSync(file, 'utf8') !== text) {
    console.error(`${name} is out of date: run \`npm run docs:options\``)
    process.exit(1)
  }
}
