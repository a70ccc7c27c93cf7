/** docs/options.md: every option of every call, as Markdown. */

import type { CallTable, Option } from '../schema/kind.js'
import type { Call } from './calls.js'

const HEAD = `# Options

<!-- \`npm run docs:options\` writes this page from the tables in lib/protocol. -->

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

/** The whole page. */
export function optionsPage(calls: readonly Call[]): string {
  const sections = calls.map(({ name, table, local }) => `## ${name}\n\n${optionRows(table, local)}`)
  return [HEAD, ...sections].join('\n')
}

/** The table of one call. */
export function optionRows(table: CallTable, isLocal = false): string {
  const rows = Object.entries(table).map(([name, entry]) => row(name, entry, isLocal))
  return ['| option | default | values | meaning |', '| --- | --- | --- | --- |', ...rows, ''].join('\n')
}

function row(name: string, entry: Option<unknown>, isLocal: boolean): string {
  const { json, bounds, doc, default: value, otherwise } = entry
  const mark = json === undefined && !isLocal ? ' *' : ''
  const shown = value === undefined ? (otherwise ?? 'required') : `\`${value}\``
  return `| \`${name}\`${mark} | ${shown} | ${bounds} | ${doc} |`
}
