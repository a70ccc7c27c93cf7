/**
 * Reads the texts of all options: the comments on the members of the interface that each `table<T>()` names.
 */
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import ts from 'typescript'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))

/**
 * Every exported table with its name and the text of each option: the whole, and its first paragraph,
 * which also holds for clients in other languages. Throws where a text is missing or disagrees with the table.
 *
 * @param {readonly string[]} packages companions whose tables are read, too
 * @returns {Promise<Map<object, { name: string, members: Map<string, { text: string, first: string, isRequired: boolean }> }>>}
 */
export async function readTables(packages) {
  const files = readdirSync(path.join(root, 'lib/calls')).map((name) => path.join(root, 'lib/calls', name))
  for (const name of packages) files.push(path.join(root, 'packages', name, 'lib/options.ts'))
  const { config } = ts.readConfigFile(path.join(root, 'tsconfig.json'), ts.sys.readFile)
  const program = ts.createProgram(files, ts.parseJsonConfigFileContent(config, ts.sys, root).options)
  const checker = program.getTypeChecker()
  const tables = new Map()
  const faults = []
  for (const file of files) {
    const values = await import(pathToFileURL(file.replace(/^(.*)\/lib\/(.*)ts$/, '$1/dist/$2js')).href)
    for (const [name, type] of declaredTables(program.getSourceFile(file))) {
      const properties = checker.getTypeFromTypeNode(type).getProperties()
      const members = new Map(properties.map((member) => [member.name, readMember(member, checker)]))
      for (const [option, { text }] of members)
        faults.push(...faultsOf(`${name}.${option}`, text, values[name]?.[option] ?? stale(name)))
      tables.set(values[name], { name, members })
    }
  }
  if (faults.length > 0) throw new Error(faults.join('\n'))
  return tables
}

function stale(name) {
  throw new Error(`dist/ is older than the table ${name}: run \`npm run build -- --debug\``)
}

/** The tables that a file exports: `export const name = table<Type>()({ ... })`. */
function declaredTables(source) {
  return source.statements
    .filter((statement) => statement.modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword))
    .flatMap((statement) => statement.declarationList?.declarations ?? [])
    .filter(({ initializer }) => /(^|\.)table$/.test(initializer?.expression?.expression?.getText()))
    .map(({ name, initializer }) => [name.text, initializer.expression.typeArguments[0]])
}

function readMember(member, checker) {
  const comment = ts.displayPartsToString(member.getDocumentationComment(checker))
  const plain = (part) => part.replace(/\s+/g, ' ').replace(/\{@link ([\w.]+) ?\}/g, '`$1`')
  const isRequired = (member.flags & ts.SymbolFlags.Optional) === 0
  return { text: plain(comment), first: plain(comment.split('\n\n')[0]), isRequired }
}

/** The sentence in a text that has the default. */
export const DEFAULT = / ?\bDefault: (.+?)\.(?=\s|$)/

/** A default that is a value, as its text begins. */
export const LITERAL = /^(\d+|true|false|'[^']*')(?=$|,| \()/

/**
 * What is wrong with the text of an option: it is missing, or has another default or maximum than the table.
 *
 * @param {string} name
 * @param {string} text
 * @param {{ default?: unknown, json?: { schema: { maximum?: number } } }} option
 */
export function* faultsOf(name, text, { default: value, json }) {
  if (text.replace(DEFAULT, '') === '') yield `${name} has no comment in its interface`
  const stated = DEFAULT.exec(text)?.[1] ?? ''
  const literal = LITERAL.exec(stated)?.[1]
  const expected = typeof value === 'string' ? `'${value}'` : value?.toString()
  const agrees = expected === undefined ? literal !== stated : literal === expected
  if (!agrees) yield `the default of ${name} is ${expected}, but its comment has: ${stated}`
  const { maximum = Number.MAX_SAFE_INTEGER } = json?.schema ?? {}
  if (maximum !== Number.MAX_SAFE_INTEGER && !new RegExp(`\\b${maximum}\\b`).test(text))
    yield `the comment of ${name} does not have its maximum, ${maximum}`
}
