/**
 * Runs the test suites of E2B, fetched at a pinned commit, against `nacre serve --e2b`, and compares their failures with the
 * expected ones.
 *
 *   npm run test:vendor                          all suites
 *   node scripts/vendor-suites.mjs e2b-python    one of packages/compat/suites/
 *
 *   --update           writes the list of expected failures anew; `npm run format` then formats it
 *   --repository <address>   fetches from this copy of the vendor's repository
 *   --source <dir>     uses this checkout of it instead of fetching one
 *   --suites <dir>     has the files that describe the suites
 *
 * A suite has a file of JSON:
 *
 *   repository, commit   where its tests are
 *   node                 the version of Node.js that its commands find, by a key of NODES in scripts/test/runners.mjs
 *   directory            of its commands, in the repository
 *   install, run         commands; the last one writes its results as JUnit XML to {report}. env: their variables
 *   least                how many tests must pass
 *   reasons              why tests fail, by the beginnings of their names
 *   either               the beginnings of the names of tests that pass or fail as the machine is: optional
 *   expected             the names of the other tests that fail
 *
 * A test that starts to fail, no longer fails, or has no reason is a problem: then the list must change.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { main, Problem } from './packages/problem.mjs'
import { installNode } from './test/runners.mjs'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
/** Suites run several tests at once, and each has a sandbox. */
const SERVER = [path.join(root, 'packages/compat/dist/cli/main.js'), '--e2b', '0', '--max-sandboxes', '100']

await main(() => {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      update: { type: 'boolean', default: false },
      repository: { type: 'string' },
      source: { type: 'string' },
      suites: { type: 'string', default: path.join(root, 'packages/compat/suites') },
    },
  })
  const all = readdirSync(values.suites).filter((name) => name.endsWith('.json'))
  const names = positionals.length > 0 ? positionals.map((name) => `${name}.json`) : all.sort()
  const unknown = names.find((name) => !all.includes(name))
  if (unknown !== undefined) throw new Problem(`there is no suite ${unknown}: choose ${all.join(' or ')}`)
  const problems = names.flatMap((name) => check(path.join(values.suites, name), values))
  if (problems.length > 0) throw new Problem(problems.join('\n'))
})

/** Runs a suite. Returns what is wrong. */
function check(file, { repository, source, update }) {
  const suite = JSON.parse(readFileSync(file, 'utf8'))
  const scratch = mkdtempSync(path.join(os.tmpdir(), 'nacre-suite-'))
  try {
    const tests = results(
      suite,
      source ?? fetch({ ...suite, ...(repository && { repository }) }, path.join(scratch, 'source')),
      scratch,
    )
    const failed = namesOf(tests, 'failed').filter((name) => !startsWithAny(name, suite.either))
    const passed = namesOf(tests, 'passed')
    console.log(`${path.basename(file, '.json')}: ${passed.length} of ${tests.size} tests passed`)
    if (update) {
      suite.expected = failed
      writeFileSync(file, `${JSON.stringify(suite, null, 2)}\n`)
    }
    return compare(suite, tests, failed, passed.length)
  } finally {
    rmSync(scratch, { recursive: true, force: true })
  }
}

function startsWithAny(name, beginnings = []) {
  return beginnings.some((beginning) => name.startsWith(beginning))
}

function compare({ expected, reasons, least }, tests, failed, passed) {
  return [
    ...failed.filter((name) => !expected.includes(name)).map((name) => `fails newly: ${name}`),
    ...expected
      .filter((name) => tests.get(name) !== 'failed')
      .map((name) => `no longer fails: ${name}${tests.has(name) ? '' : ' (there is no such test)'}`),
    ...expected
      .filter((name) => !startsWithAny(name, Object.keys(reasons)))
      .map((name) => `has no reason: ${name}`),
    ...(passed < least ? [`${passed} tests passed, and not at least ${least}`] : []),
  ]
}

function namesOf(tests, outcome) {
  return [...tests].flatMap(([name, one]) => (one === outcome ? [name] : [])).sort()
}

function fetch({ repository, commit }, directory) {
  execute('git', ['init', '--quiet', directory])
  execute('git', ['fetch', '--quiet', '--depth', '1', repository, commit], { cwd: directory })
  execute('git', ['checkout', '--quiet', 'FETCH_HEAD'], { cwd: directory })
  return directory
}

/** Runs the tests. Returns their outcomes by their names. */
function results({ directory, install, run, env, node }, source, scratch) {
  const report = path.join(scratch, 'report.xml')
  const own = node === undefined ? [] : [path.dirname(installNode(node))]
  const PATH = [...own, process.env.PATH].join(':')
  const options = { cwd: path.join(source, directory), env: { ...process.env, ...env, PATH } }
  for (const [program, ...args] of install) execute(program, args, options)
  const words = run.map((word) => word.replaceAll('{report}', report))
  // Some tests fail, and so does the command.
  spawnSync(process.execPath, [...SERVER, '--', ...words], { ...options, stdio: 'inherit' })
  if (!existsSync(report)) throw new Problem(`the suite wrote no report: ${words.join(' ')}`)
  return outcomesIn(readFileSync(report, 'utf8'))
}

function execute(program, args, options) {
  const { status, error } = spawnSync(program, args, { ...options, stdio: 'inherit' })
  if (status !== 0) throw new Problem(`${[program, ...args].join(' ')} failed: ${error?.message ?? status}`)
}

/** Reads JUnit XML, in whose values pytest and vitest escape every angle bracket. */
function outcomesIn(xml) {
  const tests = new Map()
  for (const [, head, content = ''] of xml.matchAll(/<testcase\b([^>]*?)(?:\/>|>([\s\S]*?)<\/testcase>)/g)) {
    const { classname, name } = Object.fromEntries(
      [...head.matchAll(/([\w-]+)="([^"]*)"/g)].map(([, key, value]) => [key, unescaped(value)]),
    )
    const outcome = /<(?:failure|error)\b/.test(content)
      ? 'failed'
      : /<skipped\b/.test(content)
        ? 'skipped'
        : 'passed'
    const test = `${classname}::${name}`
    // A test whose set-up or end fails has failed, too.
    if (tests.get(test) !== 'failed') tests.set(test, outcome)
  }
  return tests
}

function unescaped(text) {
  const named = { lt: '<', gt: '>', quot: '"', apos: "'", amp: '&' }
  return text.replace(/&(?:(\w+)|#(\d+)|#x([0-9a-f]+));/gi, (whole, name, decimal, hex) => {
    if (name !== undefined) return named[name] ?? whole
    return String.fromCodePoint(decimal === undefined ? Number.parseInt(hex, 16) : Number(decimal))
  })
}
