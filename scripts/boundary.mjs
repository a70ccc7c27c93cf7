/**
 * Writes `lib/boundary/index.ts`: what the addon exports, as types, from the Rust sources in `src/`.
 *
 *   node scripts/boundary.mjs [--check]      --check: fails when the file is not as it would be written
 *
 * napi-derive describes each exported item in a line of JSON when cargo compiles the crate, and scripts/build.mjs copies
 * the lines. With --check they must be there; otherwise the addon is built if its sources are newer.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { BOUNDARY, buildNative } from './build.mjs'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const file = path.join(root, 'lib/boundary/index.ts')
const isCheck = process.argv.includes('--check')

const HEAD = `/**
 * The types of the private boundary to the Rust addon: what \`nacre.node\` exports. scripts/boundary.mjs writes this file.
 *
 * One persistent callback per sandbox. Every asynchronous call carries a request id chosen here (1 to 2^32-1,
 * unique while pending) and ends with exactly one \`result\`, \`done\` or \`error\` event of that id. Times are in
 * milliseconds, sizes in bytes, signals are numbers. Everything is validated before it crosses.
 */`

/** What napi-derive does not describe. */
const PENDING = `/**
 * What a method returns whose call ends later: the \`value\` of its \`done\` event is a \`T\`. There is no such value: the method
 * returns undefined.
 */
export interface Pending<T> {
  readonly answer: T
}`

/** The constructor of a class, with its comment. */
const CONSTRUCTOR = /^\/\*\*.*\*\/\n ?constructor(\(.*\))\n/m

/** The items that the addon exports. A build writes them. */
async function exported() {
  if (!isCurrent(newest())) {
    if (isCheck) throw new Problem('src/ is newer than the build of the addon: run `npm run build`.')
    await buildNative('debug')
  }
  // An editor that expands macros appends lines to those of the compiler.
  const lines = new Set(readFileSync(newest().file, 'utf8').trim().split('\n'))
  return Array.from(lines, (line) => JSON.parse(line))
}

/** The lines of the last build, if there is one. */
function newest() {
  return ['debug', 'release']
    .map((build) => withTime(path.join(root, 'native', build, BOUNDARY)))
    .filter(({ time }) => time !== undefined)
    .sort((one, other) => other.time - one.time)[0]
}

function isCurrent(lines) {
  const names = readdirSync(path.join(root, 'src'), { recursive: true })
  const sources = names.filter((name) => name.endsWith('.rs'))
  return (
    lines !== undefined && sources.every((name) => withTime(path.join(root, 'src', name)).time <= lines.time)
  )
}

function withTime(file) {
  return { file, time: statSync(file, { throwIfNoEntry: false })?.mtimeMs }
}

/** One interface for each type, sorted by name. */
function typescript(items) {
  const interfaces = new Map()
  const functions = []
  let parameters
  for (const { kind, name, def, js_doc: doc } of items) {
    if (kind === 'fn') functions.push(`${doc}${def.replace('function ', '')}`)
    else if (kind === 'interface' || kind === 'impl') {
      parameters ??= CONSTRUCTOR.exec(def)?.[1]
      const { members, ...own } = interfaces.get(name) ?? { doc: '', members: [] }
      const others = def.replace(CONSTRUCTOR, '')
      interfaces.set(name, { doc: own.doc || doc, members: [...members, others] })
    } else if (kind === 'type') interfaces.set(name, { doc, union: def.replaceAll('; /**', ';\n/**') })
    else if (kind === 'struct') interfaces.set(name, { members: [], ...interfaces.get(name), doc })
    else throw new Problem(`scripts/boundary.mjs does not know the kind ${kind} of ${name}.`)
  }
  interfaces.set('NativeAddon', {
    doc: '',
    members: [`NativeSandbox: new ${parameters} => NativeSandbox`, ...functions],
  })
  const sorted = [...interfaces].sort(([a], [b]) => (a < b ? -1 : 1))
  const texts = sorted.map(
    ([name, { doc, members, union }]) =>
      `${doc}export ${union === undefined ? `interface ${name} {\n${members.join('\n')}\n}` : `type ${name} = ${union}`}`,
  )
  // Inside of a type, an `Option` is null alone.
  return `${HEAD}\n\n${PENDING}\n\n${texts.join('\n\n')}\n`.replaceAll(' | undefined | null>', ' | null>')
}

await main(async () => {
  const format = [
    path.join(root, 'node_modules/@biomejs/biome/bin/biome'),
    'format',
    `--stdin-file-path=${file}`,
  ]
  const text = execFileSync(process.execPath, format, {
    cwd: root,
    input: typescript(await exported()),
    encoding: 'utf8',
  })
  if (!isCheck) writeFileSync(file, text)
  else if (text !== readFileSync(file, 'utf8'))
    throw new Problem('lib/boundary/index.ts is not as src/ says: run `npm run types`.')
})
