/**
 * Writes `lib/boundary/index.ts`: what the addon exports, as types, from the Rust sources in `src/`.
 *
 *   node scripts/boundary.mjs [--check]      --check: fails when the file is not as it would be written
 *
 * napi-derive describes each exported item in a line of JSON when it compiles the crate.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { main, Problem } from './packages/problem.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const file = path.join(root, 'lib/boundary/index.ts')
const folder = path.join(path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target'), 'boundary')

const HEAD = `/**
 * The types of the private boundary to the Rust addon: what \`nacre.node\` exports. scripts/boundary.mjs writes this file.
 *
 * One persistent callback per sandbox. Every asynchronous call carries a request id chosen here (1 to 2^32-1,
 * unique while pending) and ends with exactly one \`result\`, \`done\` or \`error\` event of that id. Times are in
 * milliseconds, sizes in bytes, signals are numbers. Everything is validated before it crosses.
 */`

/** The constructor of a class, with its comment. */
const CONSTRUCTOR = /^\/\*\*.*\*\/\n ?constructor(\(.*\))\n/m

/** The items of the crate. cargo compiles it only if it has changed since: then the lines of the last time are still there. */
function exported() {
  mkdirSync(folder, { recursive: true })
  const env = { ...process.env, NAPI_TYPE_DEF_TMP_FOLDER: folder }
  execFileSync('cargo', ['check', '--quiet', '--locked', '--package', 'nacre'], {
    cwd: root,
    env,
    stdio: ['ignore', 'inherit', 'inherit'],
  })
  const lines = readFileSync(path.join(folder, 'nacre'), 'utf8').trim().split('\n')
  return lines.map((line) => JSON.parse(line))
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
    } else if (kind === 'struct') interfaces.set(name, { members: [], ...interfaces.get(name), doc })
    else throw new Problem(`scripts/boundary.mjs does not know the kind ${kind} of ${name}.`)
  }
  interfaces.set('NativeAddon', {
    doc: '',
    members: [`NativeSandbox: new ${parameters} => NativeSandbox`, ...functions],
  })
  const sorted = [...interfaces].sort(([a], [b]) => (a < b ? -1 : 1))
  const texts = sorted.map(
    ([name, { doc, members }]) => `${doc}export interface ${name} {\n${members.join('\n')}\n}`,
  )
  // Rust's `Vec<Option<String>>` takes null alone.
  return `${HEAD}\n\n${texts.join('\n\n')}\n`.replaceAll('<string | undefined | null>', '<string | null>')
}

await main(() => {
  const format = [
    path.join(root, 'node_modules/@biomejs/biome/bin/biome'),
    'format',
    `--stdin-file-path=${file}`,
  ]
  const text = execFileSync(process.execPath, format, {
    cwd: root,
    input: typescript(exported()),
    encoding: 'utf8',
  })
  if (!process.argv.includes('--check')) writeFileSync(file, text)
  else if (text !== readFileSync(file, 'utf8'))
    throw new Problem('lib/boundary/index.ts is not as src/ says: run `npm run types`.')
})
