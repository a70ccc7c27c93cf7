/**
 * Many machines on one: the cost of a fleet, a fleet under load and faults, and a queue. Writes the section "Many machines"
 * of `bench/RESULTS.md`.
 *
 *   node --expose-gc bench/machines.mjs [--quick] [--only=fleet,load,queue]
 *
 * Needs the build, Debian's redis-server, root for the network namespaces, and no other load. Takes five minutes. A quick
 * or partial run prints its tables and writes nothing.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { describeMachine } from './machine.mjs'
import { MACHINES, replaceSection } from './section.mjs'
import { table } from './text.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const RESULTS = path.join(root, 'bench/RESULTS.md')
const TITLES = {
  fleet: 'What a fleet costs',
  load: 'A fleet under load and faults',
  queue: 'A queue',
}

const { values } = parseArgs({
  options: {
    quick: { type: 'boolean', default: false },
    only: { type: 'string', default: Object.keys(TITLES).join(',') },
  },
})
const parts = values.only.split(',')
const unknown = parts.filter((part) => !(part in TITLES))
if (unknown.length > 0) {
  console.error(`There is no ${unknown.join(', no ')}; the parts are ${Object.keys(TITLES).join(', ')}.`)
  process.exit(2)
}
const facts = describeMachine(root, { Node: process.execPath })
const sections = []
for (const part of parts) {
  const { measure } = await import(`./machines/${part}.mjs`)
  sections.push(`### ${TITLES[part]}\n\n${table(['what', 'value'], await measure(values))}`)
  console.log(`${sections.at(-1)}\n`)
}
if (values.quick || parts.length < Object.keys(TITLES).length) process.exit()
const intro = `Written by \`npm run bench:machines\` on ${facts.Date}, with nacre ${facts.nacre} and Node ${facts.Node}. All hosts,
clients, the API server, the router and Redis share the cores of this machine.`
const text = readFileSync(RESULTS, 'utf8')
writeFileSync(RESULTS, replaceSection(text, MACHINES, `${intro}\n\n${sections.join('\n\n')}`))
process.exit()
