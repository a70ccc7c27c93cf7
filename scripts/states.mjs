/**
 * Compares random states of a shell before and after all that restores them: the supervisor's death, plain mode, and another
 * sandbox of the same name, after an orderly end or a SIGKILL of its program.
 *
 *   node scripts/states.mjs [--seed N] [--states N]
 *
 * Needs a debug build. A state has every kind of item, with odd names, bytes and options. What differs must be named in
 * the result's `lostState`. On a deviation, prints the seed, the commands and the lines, and exits with 1.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, rmSync, unlinkSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'

process.env.NACRE_NATIVE ??= 'debug'
const { Sandbox } = await import('nacre')
const { environment, quote } = await import('./fuzz/bash.mjs')
const { createRandom } = await import('./fuzz/random.mjs')
const { inMode } = await import('./fuzz/round.mjs')
const { isAlive, listProcesses, signal } = await import('./fuzz/world.mjs')

const { values } = parseArgs({
  options: {
    seed: { type: 'string' },
    states: { type: 'string', default: '100' },
    serve: { type: 'string' },
  },
})
if (values.serve !== undefined) {
  serve(new Sandbox(JSON.parse(values.serve)))
  await once(process, 'disconnect')
  process.exit()
}
const seed = Number(values.seed ?? process.env.NACRE_SEED ?? Date.now() % 1_000_000_000)
const PLAIN = { NACRE_ENGINE: 'plain' }
const MODES = { builtin: {}, plain: PLAIN, kept: {}, 'kept plain': PLAIN, killed: {}, 'killed plain': PLAIN }

/**
 * What a command finds out about the state, one fact per line. It first takes away what would disturb it. Not compared:
 * what each shell has for itself, and what bash computes.
 */
const DIGEST = String.raw`
\set -- "$?" "$0" "$@"; digest_options=$(\set +o; \shopt -p; \builtin enable -n; \umask; \builtin trap -p USR1 HUP DEBUG ERR RETURN CHLD WINCH)
\builtin trap - DEBUG ERR RETURN; \set +eufnxvk +o posix; \builtin enable declare printf alias complete hash pwd
\builtin printf '%q\n' "$@"; \builtin echo "$digest_options"; \builtin unset digest_options
\builtin declare -f; \builtin declare -F; \builtin alias -p; \builtin complete -p | \builtin command -p sort
\builtin pwd; \builtin echo "$(\builtin dirs -l -p)"
\builtin declare -p | \builtin command -p grep -avE '^declare -[-a-zA-Z]+ (BASH[A-Z_]*|PPID|_|S?RANDOM|EPOCH.*|LINENO|SECONDS|PIPESTATUS|FUNCNAME|COMP_WORDBREAKS|C|C_PID)(=|$)'
`

const NAMES = [
  'x',
  'y1',
  '_z',
  'LONG_NAME',
  'IFS',
  'PS4',
  'OPTIND',
  'TZ',
  'LC_ALL',
  'HISTSIZE',
  'GLOBIGNORE',
  'TOKEN',
  'RANDOM',
  'HOSTNAME',
  'COLUMNS',
  'BASH_COMPAT',
  'POSIXLY_CORRECT',
]
const FUNCTIONS = ['f', 'git-st', 'a.b', 'a=b', 'é', 'x+y', 'printf', 'declare', 'test', 'cd', '@f', '%g']
const VALUES = [
  "''",
  "'a b'",
  '"it\'s"',
  "$'two\\nlines\\n'",
  "'*'",
  "'$(touch evaluated)'",
  "'a[$(touch evaluated)]'",
  "'8080 9090'",
  'Release',
  "$'\\xff\\xfe\\x01\\x7f'",
  "'é€𝄞'",
  "'back\\slash\\'",
  '-n',
  "$'\\e[1m'",
  "'=('",
  '5.0',
  '07',
  "$'\\x01'",
]
const BODIES = [
  '{ echo "$1"; }',
  '{ case $1 in !(a)) echo no ;; esac; }',
  '{ cat <<A\n$1 `x`\nA\n}',
  "{ cat <<'A' && cat <<B\n$1\nA\n2\nB\n}",
  '{ cat <<A && cat <<B && cat <<C\n1\nA\n2\nB\n3\nC\n}',
  '( exit 3 )',
  '{ for ((i = 0; i < 2; i++)); do :; done; } >&2',
  '{ [[ $1 =~ ^a+$ && $2 == @(b|c)* ]]; }',
  "{ local -n r=$1; r=$'\\xff'; select q in a; do break; done; }",
  '{ coproc C { cat; }; time -p ! :; }',
  '{ g() { echo in; }; alias q=r; }',
]

const items = {
  variable: ({ pick }) => `${pick(NAMES)}=${pick(VALUES)}`,
  attributes: ({ pick }) =>
    `declare ${pick(['-i', '-l', '-u', '-x', '-t', '-r', '-lx', '-ix', '+x'])} ${pick(NAMES.slice(0, 4))}`,
  list: ({ pick, list }) =>
    `declare -a l; l=(${list(0, 4, () => pick(VALUES)).join(' ')}); l[7]=${pick(VALUES)}`,
  map: ({ pick }) =>
    `declare -A m; m[${pick(['k', "'a b'", "'$(touch evaluated)'", '@', "']'", "$'n\\nl'", "'\"'"])}]=${pick(VALUES)}`,
  kind: ({ pick }) => `declare ${pick(['-i', '-l', '-u', '-x', '-r'])} ${pick(['l', 'm'])}`,
  declared: ({ pick }) =>
    pick([
      'declare d1',
      'declare -a d2',
      'declare -A d3',
      'declare -x d4',
      'declare -n d5',
      'declare -n d6=x',
      'declare -i d7',
    ]),
  unset: ({ pick }) => `unset ${pick(NAMES)}`,
  function: ({ pick }) => `function ${pick(FUNCTIONS)} ${pick(BODIES)}`,
  functionAttributes: ({ pick }) => `declare ${pick(['-fx', '-ft'])} ${pick(['f', 'git-st'])}`,
  alias: ({ pick }) =>
    `alias ${pick(['ll', '#x', '{a,b}', 'echo', 'a.b', '-x', 'if'].map((name) => (name.startsWith('-') ? `-- ${name}` : `'${name}'`)))}=${pick(VALUES)}`,
  option: ({ pick }) =>
    `set ${pick(['-', '+'])}o ${pick(['errexit', 'nounset', 'noglob', 'noclobber', 'pipefail', 'posix', 'errtrace', 'functrace', 'keyword', 'physical', 'hashall', 'braceexpand', 'vi'])}`,
  shopt: ({ pick }) =>
    `shopt ${pick(['-s', '-u'])} ${pick(['extglob', 'dotglob', 'nullglob', 'globstar', 'expand_aliases', 'lastpipe', 'execfail', 'xpg_echo', 'nocasematch', 'inherit_errexit', 'sourcepath', 'extdebug', 'assoc_expand_once'])}`,
  trap: ({ pick }) =>
    `trap ${pick(["''", "': text'", "': \"it'\\''s\"'", '-'])} ${pick(['EXIT', 'USR1', 'HUP', 'DEBUG', 'ERR', 'RETURN', 'CHLD', 'WINCH'])}`,
  directory: ({ pick }) =>
    pick([
      'cd sub',
      'cd ..',
      'cd "od d\nname"',
      'pushd sub >/dev/null',
      'pushd -n /usr >/dev/null',
      'cd -P link',
      'cd link',
    ]),
  umask: ({ pick }) => `umask ${pick(['022', '077', '002'])}`,
  limit: ({ pick }) => `ulimit ${pick(['-Sn 300', '-c 0', '-St 5000', '-Ss 4096'])}`,
  arguments: ({ pick, list }) => `set -- ${list(0, 3, () => pick(VALUES)).join(' ')}`,
  completion: ({ pick }) =>
    `complete ${pick(["-W 'a b'", '-F f', '-f -o nospace', '-C cmd -P p', "-G '*'"])} ${pick(['foo', '-- -x', '-D', '-E', "'b r'"])}`,
  disable: ({ pick }) => `enable -n ${pick(['test', 'eval', 'caller', 'printf', 'alias', 'trap'])}`,
  status: ({ pick }) => `( exit ${pick(['0', '3', '200'])} )`,
}

/** In plain mode, limits belong to one command. That of file locks is the mark of a session, and left out. */
const LIMITS = '\\builtin ulimit -aS; \\builtin ulimit -aH\n'
const MARK = /^file locks .*\n/gm

/** Makes the first shell lose what the second one says that it has lost. */
const FORGET = {
  function: (name) => `unset -f -- ${name}`,
  variable: (name) => `unset -v ${name}`,
  alias: (name) => `unalias -- ${name}`,
  completion: (name) => `complete -r -- ${name}`,
}

const PREPARE = 'mkdir -p sub "od d\nname" && ln -sfn sub link'
let deviations = 0
for (let number = 0; number < Number(values.states); number++) {
  const random = createRandom(seed + number)
  const kinds = Object.fromEntries(Object.keys(items).map((name) => [name, 1]))
  const commands = random.list(3, 25, () => items[random.weighted(kinds)](random))
  for (const mode of Object.keys(MODES)) {
    // On a busy machine, the standby may not have the last state yet.
    const complaint = (await check(mode, commands, 300)) && (await check(mode, commands, 3000))
    if (complaint === undefined) continue
    deviations++
    console.log(
      `\nDEVIATION with --seed ${seed + number} --states 1, ${mode}\n${commands.join('\n')}\n${complaint}`,
    )
  }
}
console.log(`seed ${seed}, ${values.states} states, ${deviations} deviations`)
process.exit(deviations > 0 ? 1 : 0)

/** What the digest prints must be the same in the shell that made the state, and in one that it was restored in. */
async function check(mode, commands, rest) {
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-states-'))
  const options = { cwd: base, extendEnv: false, env: { ...environment, TOKEN: 'secret' } }
  const isKilled = mode.startsWith('killed')
  const named =
    isKilled || mode.startsWith('kept') ? { keep: 'state', stateDir: path.join(base, 'state') } : {}
  const first = new Sandbox(options)
  const open = () => inMode(MODES[mode], () => new Sandbox({ ...options, ...named }))
  let second = isKilled ? elsewhere({ ...options, ...named }, MODES[mode]) : open()
  const lost = []
  const digest = MODES[mode] === PLAIN ? DIGEST : `${DIGEST}${LIMITS}`
  const run = async (sandbox, text) => {
    const result = await sandbox.exec(text, { encoding: 'buffer', timeout: 20_000 })
    if (sandbox === second) lost.push(...(result.lostState ?? []))
    return Buffer.from(result.stdout).toString('latin1').replace(MARK, '')
  }
  let hasForgotten = false
  const forget = async () => {
    for (const { kind, name } of lost.splice(0)) {
      hasForgotten = true
      if (FORGET[kind]) await run(first, FORGET[kind](quote(name)))
    }
  }
  try {
    await run(first, PREPARE)
    const former = children()
    await run(second, PREPARE)
    const supervisor = children().find((pid) => !former.includes(pid))
    for (const command of commands) {
      await run(first, command)
      const mayEvaluate = wasEvaluated(base)
      await run(second, command)
      await forget()
      if (wasEvaluated(base) && !mayEvaluate) return `a value was evaluated before ${command}`
    }
    if (mode === 'builtin') {
      await sleep(rest)
      signal(supervisor, 'SIGKILL')
      while (isAlive(supervisor)) await sleep(1)
    }
    if (named.keep !== undefined) {
      await second.destroy()
      second = open()
    }
    const after = await run(second, digest).catch(() => run(second, digest))
    await forget()
    const before = await run(first, digest)
    if (wasEvaluated(base)) return 'a value was evaluated'
    // Forgetting has changed `$?`, the first line.
    const from = hasForgotten ? 1 : 0
    const [earlier, later] = [before, after].map((text) => text.split('\n').slice(from).map(comparable))
    return earlier.join() === later.join() ? undefined : differences(earlier, later)
  } finally {
    await Promise.all([first.destroy(), second.destroy()])
    rmSync(base, { recursive: true, force: true })
  }
}

/** A sandbox in another program. Its end is a SIGKILL of that. */
function elsewhere(options, env) {
  const program = fork(process.argv[1], ['--serve', JSON.stringify(options)], {
    env: { ...process.env, ...env },
    serialization: 'advanced',
  })
  return {
    async exec(...call) {
      program.send(call)
      const [{ error, result }] = await once(program, 'message')
      if (error !== undefined) throw new Error(error)
      return result
    },
    async destroy() {
      const ended = program.exitCode ?? program.signalCode ?? once(program, 'exit')
      program.kill('SIGKILL')
      await ended
    },
  }
}

/** Runs the commands of another program, one at a time. */
function serve(sandbox) {
  process.on('message', (call) => {
    const answer = (outcome) => process.send(outcome)
    sandbox.exec(...call).then(
      ({ stdout, lostState }) => answer({ result: { stdout, lostState } }),
      (error) => answer({ error: String(error) }),
    )
  })
}

/** Whether the command in one of the values has run since the last call. */
function wasEvaluated(base) {
  return ['', 'sub', 'od d\nname'].some((directory) => {
    const file = path.join(base, directory, 'evaluated')
    const exists = existsSync(file)
    if (exists) unlinkSync(file)
    return exists
  })
}

/** Plain mode does not keep the order of an associative array. */
function comparable(line) {
  return line.startsWith('declare -A') ? [...line].sort().join('') : line
}

function differences(before, after) {
  const only = (sign, one, other) =>
    one.filter((line) => !other.includes(line)).map((line) => `${sign} ${line}`)
  return [...only('-', before, after), ...only('+', after, before)].slice(0, 20).join('\n')
}

function children() {
  return listProcesses()
    .filter(({ parent }) => parent === process.pid)
    .map(({ pid }) => pid)
}
