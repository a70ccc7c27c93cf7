/**
 * The descriptions of the OpenAPI document: the comments on the options that a JSON body can have.
 */
import { existsSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { readTables } from '../texts.mjs'

/** Writes `texts.ts` of @nacre/server, unless it is newer than what it is made of. Needs `dist/`. */
export async function serverTexts(root) {
  const file = path.join(root, 'packages/server/lib/texts.ts')
  const sources = ['lib/calls', 'lib/protocol', 'lib/schema'].flatMap((folder) =>
    readdirSync(path.join(root, folder)).map((name) => path.join(root, folder, name)),
  )
  sources.push(
    import.meta.filename,
    path.join(root, 'scripts/texts.mjs'),
    path.join(root, 'scripts/calls.mjs'),
  )
  const changed = Math.max(...sources.map((source) => statSync(source).mtimeMs))
  if (existsSync(file) && statSync(file).mtimeMs > changed) return
  const imported = (module) => import(pathToFileURL(path.join(root, 'dist', module)).href)
  const [{ calls: all }, { sendable }] = await Promise.all([
    import('../calls.mjs'),
    imported('protocol/codec.js'),
  ])
  const tables = await readTables([])
  /** A table, and the tables of the objects in it. */
  const nested = (table) => {
    const inner = ({ schema: { options, anyOf = [], items } }) =>
      tables.has(options) ? nested(options) : [...anyOf, ...(items ? [items] : [])].flatMap(inner)
    return [table, ...sendable(table).flatMap(([, { json }]) => inner(json))]
  }
  const sent = new Set(all.flatMap(({ table, route }) => (route === undefined ? [] : nested(table))))
  const entries = [...sent].map((table) => ({ table, ...tables.get(table) }))
  const maps = entries.map(({ table, name, members }) => {
    const texts = sendable(table).map(([option]) => [option, members.get(option).first])
    return `  [tables.${name}, ${JSON.stringify(Object.fromEntries(texts))}],\n`
  })
  const code = `/** Made by the build from the comments in lib/calls. */
import type { kinds } from 'nacre/internal'
import { tables } from 'nacre/internal/server'

export const texts = new Map<kinds.OptionTable, Record<string, string>>([
${maps.join('')}])
`
  writeFileSync(file, code)
}
