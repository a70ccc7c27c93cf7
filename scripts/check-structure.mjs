/**
 * Checks the structure of the Rust code: no cycle between modules, no two types of a crate with one name, at most six modules
 * that join the parts of a session, and no state in them that others may touch.
 *
 *   node scripts/check-structure.mjs
 *
 * A module is a file. It depends on the files named by its `use` declarations and by its paths beginning with `crate::` or
 * `super::`. A `mod.rs` that only declares and re-exports is resolved to its modules. Unit tests do not count.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const problems = []
/** Modules of a session that may have methods of all of it. The others see their own part and what they are given. */
const MAX_JOINING = 6

const crates = ['.', ...readdirSync(path.join(root, 'crates')).map((name) => `crates/${name}`)]
for (const crate of crates) checkCrate(path.join(root, crate))
checkState('crates/core/src/session')
for (const problem of problems) console.error(problem)
if (problems.length > 0) process.exit(1)
console.log(`${crates.length} crates: no cycle between modules, and each part of a session owns its state`)

function checkCrate(directory) {
  const source = path.join(directory, 'src')
  if (!existsSync(source)) return
  const files = readdirSync(source, { recursive: true }).filter((name) => name.endsWith('.rs'))
  const graph = new Map(files.map((name) => [name, dependencies(source, name)]))
  const cycle = findCycle(graph)
  if (cycle) problems.push(`${path.relative(root, source)}: a cycle of modules: ${cycle.join(' -> ')}`)
  checkNames(source, files)
}

/** A type is found by its name. */
function checkNames(source, files) {
  const places = new Map()
  for (const name of files.filter((file) => !/tests?\.rs$/.test(file))) {
    const code = withoutTests(readFileSync(path.join(source, name), 'utf8'))
    for (const [, type] of code.matchAll(/^\s*(?:pub(?:\([^)]*\))? )?(?:struct|enum|trait|union) (\w+)/gm)) {
      const earlier = places.get(type)
      if (earlier) {
        problems.push(`${path.relative(root, source)}: ${earlier} and ${name} both have a type \`${type}\``)
      }
      places.set(type, name)
    }
  }
}

/** A module owns its state: its fields are private. The fields of a plain value, which has no state, are `pub`. */
function checkState(directory) {
  const files = readdirSync(path.join(root, directory), { recursive: true }).filter((name) =>
    name.endsWith('.rs'),
  )
  const texts = files.map((name) => [name, readFileSync(path.join(root, directory, name), 'utf8')])
  const joining = texts.filter(([, text]) => /^impl Session \{/m.test(text)).map(([name]) => name)
  if (joining.length > MAX_JOINING) {
    problems.push(
      `${directory}: ${joining.length} modules have methods of all of \`Session\` (${joining.join(', ')}): give the method to a part`,
    )
  }
  for (const [name, text] of texts) {
    for (const [, field] of text.matchAll(/^\s+pub\([^)]*\) (\w+):/gm)) {
      problems.push(
        `${directory}/${name}: make the field \`${field}\` private, and add a function for what is done with it`,
      )
    }
  }
}

function withoutTests(text) {
  return text.split(/\n#\[cfg\(test\)\]\n(?:mod|use)/)[0]
}

function dependencies(source, name) {
  const code = withoutTests(readFileSync(path.join(source, name), 'utf8')).replace(/\/\/.*$/gm, '')
  const own = modulePath(name)
  const found = new Set()
  for (const [, tree] of code.matchAll(/^\s*(?:pub(?:\([^)]*\))? )?use ([^;]+);/gm)) {
    // A re-export of a child belongs to the child.
    for (const used of expand(tree.replace(/\s+/g, ''))) add(used)
  }
  for (const [used] of code.matchAll(/\b(?:crate|super)(?:::\w+)+/g)) add(used)
  found.delete(name)
  return [...found]

  function add(used) {
    const parts = used.split('::')
    let base
    if (parts[0] === 'crate') base = []
    else if (parts[0] === 'super') base = own.slice(0, -1)
    else if (parts[0] === 'self') base = own
    else return
    let rest = parts.slice(1)
    while (rest[0] === 'super') {
      base = base.slice(0, -1)
      rest = rest.slice(1)
    }
    const target = resolve(source, [...base, ...rest], base.length)
    // Children of a module may use its declarations, and it may re-export theirs.
    if (target && !isParent(target, name) && !isParent(name, target)) found.add(target)
  }
}

/** The file of the longest prefix that is a module; re-exports of a `mod.rs` are looked up there. */
function resolve(source, parts, least) {
  for (let length = parts.length; length >= Math.max(1, least); length--) {
    const file = moduleFile(source, parts.slice(0, length))
    if (!file) continue
    const next = parts[length]
    if (path.basename(file) === 'mod.rs' && next) {
      const exported = reExport(source, file, parts.slice(0, length), next)
      if (exported) return exported
    }
    return file
  }
}

function reExport(source, file, base, item) {
  const text = readFileSync(path.join(source, file), 'utf8')
  for (const [, tree] of text.matchAll(/^pub(?:\([^)]*\))? use ([^;]+);/gm)) {
    for (const used of expand(tree.replace(/\s+/g, ''))) {
      const parts = used.split('::')
      if (parts.at(-1) === item) return resolve(source, [...base, ...parts.slice(0, -1)], base.length)
    }
  }
}

function moduleFile(source, parts) {
  const stem = parts.join('/')
  return [`${stem}.rs`, `${stem}/mod.rs`].find((name) => existsSync(path.join(source, name)))
}

function modulePath(name) {
  const parts = name.replace(/\.rs$/, '').split('/')
  return ['mod', 'lib', 'main'].includes(parts.at(-1)) ? parts.slice(0, -1) : parts
}

function isParent(parent, child) {
  const [above, below] = [modulePath(parent), modulePath(child)]
  return above.length < below.length && above.every((part, index) => part === below[index])
}

/** Expands `a::{b, c::d}` to `a::b` and `a::c::d`; a renamed item keeps its first name. */
function expand(tree) {
  const open = tree.indexOf('{')
  if (open < 0) return [tree.replace(/as\w+$/, '')]
  const [prefix, inner] = [tree.slice(0, open), tree.slice(open + 1, tree.lastIndexOf('}'))]
  const parts = []
  let depth = 0
  let start = 0
  for (let at = 0; at <= inner.length; at++) {
    if (inner[at] === '{') depth++
    if (inner[at] === '}') depth--
    if ((inner[at] === ',' && depth === 0) || at === inner.length) {
      if (at > start) parts.push(inner.slice(start, at))
      start = at + 1
    }
  }
  return parts.flatMap(expand).map((part) => (part === 'self' ? prefix.replace(/::$/, '') : prefix + part))
}

function findCycle(graph) {
  const state = new Map()
  const stack = []
  for (const name of graph.keys()) {
    const cycle = visit(name)
    if (cycle) return cycle
  }

  function visit(name) {
    if (state.get(name) === 'done') return
    if (state.get(name) === 'open') return [...stack.slice(stack.indexOf(name)), name]
    state.set(name, 'open')
    stack.push(name)
    for (const next of graph.get(name) ?? []) {
      const cycle = visit(next)
      if (cycle) return cycle
    }
    stack.pop()
    state.set(name, 'done')
  }
}
