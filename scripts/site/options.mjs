/** The pages below docs/options: every option of each call, from the tables in `dist` and the comments on their interfaces. */
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { slugify } from '../../docs/.vitepress/slugify.mjs'
import { calls as own } from '../calls.mjs'
import { companions } from '../packages/companions.mjs'
import { DEFAULT, LITERAL, readTables } from '../texts.mjs'

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../..')
const packages = companions(root, 'lib/options.ts')
const tables = await readTables(packages)
const calls = [...own]
for (const name of packages) calls.push(...(await import(`../../packages/${name}/dist/options.js`)).calls)

/** Each page has the calls from this one on, until the next page begins. */
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
  return [`# ${title}\n\n${intro}\n`, ...sections].join('\n')
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

export const optionPages = Object.fromEntries(
  PAGES.map((page, index) => [`${page.page}.md`, optionsPage(page, index)]),
)
