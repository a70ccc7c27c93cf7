/**
 * Runs test files with vitest, Bun or cargo, and reads which tests failed.
 *
 * A runner resolves to `{ passed, failures }`. A failure has the file (for Rust: the target), the test and the message.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { projects } from './projects.mjs'

/** Of a test in vitest and Bun, against hanging. */
export const TEST_TIMEOUT_MS = 60_000

/** The versions of Node.js that the tests run on besides the present one: npm packages, installed in target/nodes. */
const NODES = { 20: '20.19.0', 22: '22.23.3', 24: '24.21.0' }

/**
 * Runs projects on Node.js, or only some of their files.
 *
 * @param {{ project: string | string[], node?: keyof typeof NODES, within?: string[], files?: string[] }} tests `within` has
 *   the words of a command that runs them
 */
export async function runOnNode({ project, node, within = [], files = [] }, command, scratch) {
  const report = path.join(scratch, 'vitest.json')
  const reporters = ['--reporter=default', '--reporter=scripts/test/reporter.mjs']
  const chosen = [project].flat().flatMap((name) => ['--project', name])
  const args = ['node_modules/vitest/vitest.mjs', 'run', ...reporters, ...chosen, ...files]
  const program = node === undefined ? process.execPath : installNode(node)
  // Tests also start programs by the name `node`.
  const PATH = `${path.dirname(program)}:${process.env.PATH}`
  const end = await command([...within, program, ...args], { PATH, NACRE_TEST_REPORT: report })
  const result = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : { passed: 0, failures: [] }
  return complete(result, end)
}

/** Runs a project on Bun, or only some of its files. */
export async function runOnBun({ project, only = () => true, files }, command, scratch) {
  const { env } = projects.find(({ name }) => name === project)
  const chosen = files ?? filesOf(project).filter(only)
  const report = path.join(scratch, 'bun.xml')
  const reporter = ['--reporter=junit', `--reporter-outfile=${report}`]
  const limit = ['--timeout', String(TEST_TIMEOUT_MS)]
  const paths = chosen.map((file) => `./${file}`)
  const args = ['node_modules/.bin/bun', 'test', ...limit, '--only-failures', ...reporter, ...paths]
  const end = await command(args, { NACRE_NATIVE: 'debug', ...env })
  const result = existsSync(report)
    ? readJunit(readFileSync(report, 'utf8'))
    : { passed: 0, failures: [], files: new Set() }
  // Bun reports nothing about a file that throws before its first test.
  if (end.code !== 0)
    for (const file of chosen.filter((file) => !result.files.has(file)))
      result.failures.push({ file, test: '', message: lastError(end.lines) })
  return complete(result, end)
}

function lastError(lines) {
  return lines.findLast((line) => line.startsWith('error: ')) ?? 'the file did not run to its end'
}

/** The tests of a JUnit report of Bun. Values of attributes are escaped, so no tag contains a `>` of its own. */
function readJunit(xml) {
  const result = { passed: 0, failures: [], files: new Set() }
  let test
  for (const [, tag, text] of xml.matchAll(/<(testcase|failure|skipped) ([^>]*)>/g)) {
    const attributes = Object.fromEntries(
      Array.from(text.matchAll(/(\w+)="([^"]*)"/g), ([, name, value]) => [name, decodeEntities(value)]),
    )
    if (tag === 'testcase') {
      test = attributes
      result.passed++
      result.files.add(test.file)
      continue
    }
    result.passed--
    if (tag === 'failure') {
      const name = [test.classname, test.name].filter(Boolean).join(' > ')
      result.failures.push({ file: test.file, test: name, message: attributes.message ?? attributes.type })
    }
  }
  return result
}

function decodeEntities(text) {
  const characters = { amp: '&', lt: '<', gt: '>', quot: '"', apos: "'" }
  return text.replace(/&(?:#(\d+)|(\w+));/g, (_, code, name) =>
    code === undefined ? characters[name] : String.fromCodePoint(Number(code)),
  )
}

/** Runs the Rust tests, or only some of their targets. `within` as for Node. */
export async function runOnCargo({ within = [], files = ['--workspace'] }, command) {
  const result = { passed: 0, failures: [] }
  for (const target of files) {
    const kinds = target === '--workspace' ? ['--tests'] : []
    const args = ['test', '--locked', '--no-fail-fast', ...target.split(' '), ...kinds]
    const end = await command([...within, 'cargo', ...args])
    const { passed, failures } = complete(readCargo(end.lines), end)
    result.passed += passed
    result.failures.push(...failures)
  }
  return result
}

/**
 * The targets that failed are at the end of cargo's output, each as the arguments that run it alone. A target has many
 * tests, so only those that failed run again, if it ran to its end.
 */
function readCargo(lines) {
  const text = lines.join('\n')
  const counts = Array.from(text.matchAll(/^test result: .* (\d+) passed;/gm), ([, count]) => Number(count))
  const targets = Array.from(text.matchAll(/^ {4}`(-p .*)`$/gm), ([, target]) => target)
  // Each target ends with such a line, and they run in the order of that list.
  const runs = text.split(/^test result: .*$/m)
  const failed = runs.map(failedTests).filter((names) => names.length > 0)
  const failures = targets.map((target, index) => {
    const names = failed.length === targets.length ? failed[index] : []
    const file = names.length > 0 ? `${target} -- --exact ${names.join(' ')}` : target
    return { file, test: (names.length > 0 ? names : failed.flat()).join(', '), message: panics(text) }
  })
  return { passed: counts.reduce((sum, count) => sum + count, 0), failures }
}

function failedTests(text) {
  // A test that ran in a process of its own is reported by that one too.
  return [...new Set(Array.from(text.matchAll(/^test (.*) \.\.\. FAILED$/gm), ([, name]) => name))]
}

function panics(text) {
  return Array.from(text.matchAll(/^thread '.* panicked at .*\n.*$/gm), ([panic]) => panic).join('\n')
}

/** A runner that fails without a failed test has said why in its last lines. */
function complete({ passed, failures }, { code, lines }) {
  if (code !== 0 && failures.length === 0) failures.push({ test: '', message: lines.slice(-15).join('\n') })
  return { passed, failures }
}

/** The files of a project. Bun has no projects, so vitest lists them. */
function filesOf(project) {
  const args = ['node_modules/vitest/vitest.mjs', 'list', '--filesOnly', '--json', '--project', project]
  const found = JSON.parse(execFileSync(process.execPath, args, { encoding: 'utf8' }))
  return found.map(({ file }) => path.relative(process.cwd(), file)).sort()
}

/** Installs a version of Node.js. Returns its program. */
export function installNode(key) {
  const version = NODES[key]
  const directory = path.resolve(import.meta.dirname, '../../target/nodes', version)
  const program = path.join(directory, 'node_modules/node/bin/node')
  if (existsSync(program)) return program
  rmSync(directory, { recursive: true, force: true })
  mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(directory, 'package.json'), '{"private":true}\n')
  const args = ['install', '--no-audit', '--no-fund', '--save-exact', `node@${version}`]
  const { status } = spawnSync('npm', args, { cwd: directory, stdio: ['ignore', 'inherit', 'inherit'] })
  if (status !== 0) throw new Error(`npm cannot install Node.js ${version}`)
  return program
}
