/**
 * Runs the files of bash's own test suite in a session and compares the results with `bash -c`.
 *
 *   node scripts/bash-suite.mjs [--suite bookworm] [--lines N] [FILE]...      after a debug build
 *
 * A file's whole text is one command, in a fresh session and a fresh copy of the directory. Prints the files whose output
 * or exit code differs, with the first differing lines. docs/bash-suite.md explains the remaining differences.
 */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { parseArgs } from 'node:util'
import { fetchBash, fetchSource, firstLine } from './debian.mjs'

process.env.NACRE_NATIVE ??= 'debug'
const { Sandbox } = await import('nacre')

const LIMIT_MS = 120_000
/** Small programs that the tests call. */
const PROGRAMS = ['recho', 'zecho', 'printenv', 'xcase']

const { values, positionals } = parseArgs({
  options: {
    suite: { type: 'string', default: 'bookworm' },
    lines: { type: 'string', default: '6' },
  },
  allowPositionals: true,
})

let shell
let source
try {
  shell = fetchBash(values.suite)
  source = fetchSource(values.suite)
} catch (error) {
  console.log(`bash's test suite cannot be fetched: ${firstLine(error)}`)
  process.exit(0)
}
const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-bash-suite-'))
const original = path.join(base, 'original')
const place = path.join(base, 'place')
cpSync(path.join(source, 'tests'), original, { recursive: true })
for (const name of PROGRAMS) {
  const file = path.join(source, 'support', `${name}.c`)
  execFileSync(
    'cc',
    [
      '-w',
      '-include',
      'string.h',
      `-I${source}/include`,
      `-I${source}`,
      '-o',
      path.join(original, name),
      file,
    ],
    {
      stdio: 'inherit',
    },
  )
}
const env = {
  PATH: `.:${process.env.PATH}`,
  HOME: '/',
  LANG: 'C.UTF-8',
  THIS_SH: shell,
  BUILD_DIR: base,
  TMPDIR: path.join(base, 'tmp'),
}

const files = readdirSync(original)
  .filter((name) => name.endsWith('.tests'))
  .map((name) => name.slice(0, -6))
  .filter((name) => positionals.length === 0 || positionals.includes(name))
const counts = { same: 0, different: 0, 'not compared': 0 }
for (const name of files) {
  const { kind, about } = await compare(name)
  counts[kind]++
  if (kind !== 'same') console.log(`${name}: ${about}`)
}
console.log(
  Object.entries(counts)
    .map(([kind, count]) => `${count} ${kind}`)
    .join(', '),
)
rmSync(base, { recursive: true, force: true })
process.exit(0)

async function compare(name) {
  const text = readFileSync(path.join(original, `${name}.tests`))
  if (text.includes(0)) return { kind: 'not compared', about: 'its text has a NUL' }
  refresh()
  // As latin1, so that every byte survives; a process's argv is bytes.
  const script = text.toString('utf8')
  if (!Buffer.from(script).equals(text)) return { kind: 'not compared', about: 'its text is not UTF-8' }
  const plain = spawnSync(shell, ['--norc', '--noprofile', '-c', script, 'bash'], {
    cwd: place,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: LIMIT_MS,
    killSignal: 'SIGKILL',
    maxBuffer: 1 << 28,
  })
  if (plain.error !== undefined) return { kind: 'not compared', about: `bash -c: ${plain.error.code}` }
  refresh()
  const found = await runInSession(script)
  const wanted = { stdout: plain.stdout, stderr: plain.stderr, code: plain.status, extra: '' }
  const lines = ['stdout', 'stderr'].flatMap((stream) =>
    differences(clean(wanted[stream]), clean(found[stream])),
  )
  if (wanted.code !== found.code) lines.unshift(`  code ${found.code} instead of ${wanted.code}`)
  if (found.extra !== '') lines.unshift(`  ${found.extra}`)
  const most = Number(values.lines)
  const shown = lines.slice(0, most).join('\n')
  return lines.length === 0
    ? { kind: 'same' }
    : { kind: 'different', about: `${lines.length} lines\n${shown}` }
}

/** Both shells find the same files. */
function refresh() {
  rmSync(place, { recursive: true, force: true })
  rmSync(env.TMPDIR, { recursive: true, force: true })
  cpSync(original, place, { recursive: true })
  mkdirSync(env.TMPDIR, { recursive: true })
  writeFileSync(path.join(base, 'config.h'), '')
}

async function runInSession(script) {
  const sandbox = new Sandbox({
    shell,
    cwd: place,
    extendEnv: false,
    env,
    stateDir: path.join(base, 'state'),
  })
  try {
    const options = { encoding: 'buffer', timeout: LIMIT_MS, forceKillAfterDelay: 500 }
    const result = await sandbox
      .exec(script, options)
      .catch((error) => error.result ?? { stdout: '', stderr: `${error}` })
    // The session must be usable whatever the file has done.
    const after = await sandbox
      .exec(
        '\\builtin enable -a; \\builtin unset -f echo builtin; \\builtin trap - DEBUG; \\builtin echo alive',
        { timeout: 5000 },
      )
      .catch((error) => error)
    const alive = String(after.stdout ?? '').endsWith('alive\n')
      ? ''
      : `not usable afterwards: ${after.message ?? JSON.stringify(after)}`
    const restarted = result.sessionRestarted ? 'the shell was restarted' : ''
    const late = result.timedOut ? 'timed out' : ''
    const extra = [late, restarted, alive].filter(Boolean).join(', ')
    return { stdout: result.stdout, stderr: result.stderr, code: result.exitCode, extra }
  } finally {
    await sandbox.destroy()
  }
}

/** The text without pids and times of day. */
function clean(bytes) {
  return Buffer.from(bytes)
    .toString('latin1')
    .replaceAll(/\b\d{3,7}\b/g, 'N')
    .replaceAll(/ +N/g, ' N')
    .split('\n')
}

/** Lines of one text that the other lacks, by a longest common subsequence of a few thousand lines. */
function differences(wanted, found) {
  const directory = (lines, name) => {
    const file = path.join(base, name)
    writeFileSync(file, lines.join('\n'), 'latin1')
    return file
  }
  const result = spawnSync('diff', [directory(wanted, 'wanted'), directory(found, 'found')], {
    encoding: 'latin1',
    maxBuffer: 1 << 28,
  })
  return result.stdout
    .split('\n')
    .filter((line) => /^[<>]/.test(line))
    .map((line) => `  ${line.replace(/^</, 'bash -c:').replace(/^>/, 'session:').slice(0, 150)}`)
}
