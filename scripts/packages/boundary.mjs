/**
 * What the addon exports, as types for TypeScript. napi-derive describes each exported item in a line of JSON when cargo
 * compiles the crate.
 */
import { Problem } from './problem.mjs'

const HEAD = `/**
 * The types of the private boundary to the Rust addon: what \`nacre.node\` exports. The build makes this file of
 * src/.
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

/** The module `lib/boundary`, from the lines of the compiler. */
export function boundary(lines) {
  // An editor that expands macros appends lines to those of the compiler.
  const items = Array.from(new Set(lines.trim().split('\n')), (line) => JSON.parse(line))
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
    else throw new Problem(`scripts/packages/boundary.mjs does not know the kind ${kind} of ${name}.`)
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
