/**
 * NOTICE of a package: the licences of third-party components inside it.
 */
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { Problem } from './problem.mjs'

const LICENCE_FILE = /^(licen[cs]e|copying|notice|unlicense)([-.].*)?$/i

/** The bundled npm packages. `packages` maps names to directories. */
export function npmNotices(packages) {
  return Array.from(packages, ([name, directory]) => {
    const { version, license } = JSON.parse(readFileSync(path.join(directory, 'package.json'), 'utf8'))
    return { name, version, license, texts: licenceTexts(directory, license) }
  })
}

/** Code that the bundler itself adds. */
export const BUNDLER_NOTICES = [
  { name: '@oxc-project/runtime', license: 'MIT', source: 'https://github.com/oxc-project/oxc' },
]

/** The crates that are linked into the addon or the supervisor for a target, without build tools. */
export function crateNotices(root, triple) {
  const args = ['metadata', '--format-version=1', '--locked', '--filter-platform', triple]
  const options = { cwd: root, encoding: 'utf8', maxBuffer: 1e9, stdio: ['ignore', 'pipe', 'ignore'] }
  const metadata = JSON.parse(execFileSync('cargo', args, options))
  return linkedCrates(metadata, ['nacre', 'nacre-supervisor']).map(
    ({ name, version, license, manifest_path }) => ({
      name,
      version,
      license,
      texts: licenceTexts(path.dirname(manifest_path), license),
    }),
  )
}

/** Third-party crates that normal dependencies reach from `roots`. A macro is compiled in, not linked. Pure. */
export function linkedCrates({ packages, resolve, workspace_members }, roots) {
  const nodes = new Map(resolve.nodes.map((node) => [node.id, node]))
  const byId = new Map(packages.map((one) => [one.id, one]))
  const pending = packages.filter(({ name, id }) => roots.includes(name) && workspace_members.includes(id))
  const seen = new Set(pending.map(({ id }) => id))
  for (const { id } of pending) {
    for (const { pkg, dep_kinds } of nodes.get(id)?.deps ?? []) {
      const isMacro = byId.get(pkg).targets.some(({ kind }) => kind.includes('proc-macro'))
      if (seen.has(pkg) || isMacro || !dep_kinds.some(({ kind }) => kind === null)) continue
      seen.add(pkg)
      pending.push(byId.get(pkg))
    }
  }
  return pending.filter(({ id }) => !workspace_members.includes(id))
}

/** Where a component may be used under the MIT licence or another one, nacre uses it under the MIT licence. */
function licenceTexts(directory, license = '') {
  const names = readdirSync(directory).filter((name) => LICENCE_FILE.test(name))
  const mit = names.filter((name) => /mit/i.test(name))
  const isChoice = / OR /.test(license) && !/ AND /.test(license)
  const chosen = isChoice && mit.length > 0 ? mit : names
  return chosen.sort().map((name) => readFileSync(path.join(directory, name), 'utf8').trim())
}

/** Linked components other than crates. */
const RUST = {
  name: "Rust's standard library",
  license: 'MIT OR Apache-2.0',
  source: 'https://github.com/rust-lang/rust',
}
const MUSL = {
  name: 'musl (in nacre-supervisor, linked statically)',
  license: 'MIT',
  source: 'https://musl.libc.org',
}
const UNWIND = {
  name: "LLVM's libunwind",
  license: 'Apache-2.0 WITH LLVM-exception',
  source: 'https://llvm.org',
}

/** The components of a platform package that are not crates. */
export const SYSTEM_NOTICES = [RUST, MUSL, UNWIND]

/** The text of NOTICE. Each licence text appears once. Throws Problem for a component without a licence. Pure. */
export function noticeText(title, components) {
  const unlicensed = components.filter(({ license }) => !license).map(({ name }) => name)
  if (unlicensed.length > 0) throw new Problem(`No licence is known for ${unlicensed.join(', ')}.`)
  const sorted = components.toSorted((one, other) => (one.name < other.name ? -1 : 1))
  const list = sorted.map(
    ({ name, version, license, source }) =>
      `- ${[name, version].filter(Boolean).join(' ')}: ${license}${source ? ` (${source})` : ''}`,
  )
  const byText = new Map()
  for (const { name, texts = [] } of sorted) {
    for (const text of texts) byText.set(text, [...(byText.get(text) ?? []), name])
  }
  const texts = Array.from(byText, ([text, names]) => `${'='.repeat(80)}\n${names.join(', ')}\n\n${text}\n`)
  const choice = 'Where MIT is one of several licences, nacre uses the component under MIT.'
  return `${title} contains software of others. ${choice}\n\n${list.join('\n')}\n\n${texts.join('\n')}`
}
