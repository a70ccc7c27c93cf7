/** docs/options.md: every option of every call, as Markdown. */

import type { Option, OptionTable } from '../options/option.js'
import type { Call } from './calls.js'

const HEAD = `# Options

Every option of every call. This page is written by \`npm run docs:options\` from the tables in \`lib/protocol\`, which also
make the readers, the JSON codec and the OpenAPI document. Options that are \`undefined\` count as not given. An unknown
option or a value out of bounds is an \`OptionError\` before anything runs.

Options marked with * exist in one process only and do not cross HTTP by themselves: callbacks,
\`lines\` and \`verbose\`, and \`signal\`, which the client turns into a request of its own.
`

/** The whole page. */
export function optionsPage(calls: readonly Call[]): string {
  const sections = calls.map(({ name, table, local }) => `## ${name}\n\n${optionRows(table, local)}`)
  return [HEAD, ...sections].join('\n')
}

/** The table of one call. */
export function optionRows(table: OptionTable, isLocal = false): string {
  const rows = Object.entries(table).map(([name, entry]) => row(name, entry as Option<unknown>, isLocal))
  return ['| option | default | values | meaning |', '| --- | --- | --- | --- |', ...rows, ''].join('\n')
}

function row(name: string, entry: Option<unknown>, isLocal: boolean): string {
  const { json, bounds, doc, default: value, otherwise } = entry
  const mark = json === undefined && !isLocal ? ' *' : ''
  const shown = value === undefined ? (otherwise ?? 'required') : `\`${value}\``
  return `| \`${name}\`${mark} | ${shown} | ${bounds} | ${doc} |`
}
