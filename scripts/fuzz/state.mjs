/** The model of a session's state, which every later command must find. */
import { plainBash, quote } from './bash.mjs'

export const NAMES = ['x', 'y', 'z']
export const KEYS = ['k1', 'k 2']
export const FUNCTIONS = ['f', 'h']
export const LETTERS = ['a', 'e', 'f', 'u', 'C', 'x', 'E', 'T']
export const SHOPTS = ['dotglob', 'extglob', 'globstar', 'nullglob']
export const SIGNALS = ['EXIT', 'USR1', 'DEBUG', 'ERR', 'RETURN']
/** User functions that hide builtins. The tester's own texts use `builtin` where it matters. */
export const HIDDEN = ['printf', 'read', 'eval', 'command', 'test', 'source', 'echo', 'declare']

/** The state of a new session. */
export function initial(directory) {
  return {
    variables: {},
    exported: [],
    array: [],
    map: {},
    functions: {},
    hidden: [],
    aliases: {},
    cwd: directory,
    oldCwd: undefined,
    umask: '0022',
    letters: [],
    pipefail: false,
    shopts: [],
    traps: {},
    words: [],
    /** `$?`; undefined if unknown. */
    status: 0,
  }
}

/** A mutable copy. */
export function copy(state) {
  return structuredClone(state)
}

/** The bash options that decide what ends a command. */
export function strictness({ letters, pipefail }) {
  const flags = ['e', 'u'].filter((letter) => letters.includes(letter)).map((letter) => `-${letter}`)
  return pipefail ? [...flags, '-o', 'pipefail'] : flags
}

/** The commands that print the state, in the order of `expected`. `$?` comes first, so that nothing runs before it. */
export function probeText({ traps = true } = {}) {
  const lines = [
    '?=$probe_status',
    'cwd=$PWD',
    'old=${OLDPWD-none}',
    '-=$-',
    'args=$#:$*',
    ...NAMES.map((name) => `${name}=\${${name}-unset},\${${name}+\${${name}@a}}`),
    'A=${A[*]+${#A[@]}:${A[*]}}',
    ...KEYS.map((key) => `M[${key}]=\${M[${key}]-unset}`),
  ]
  const quoted = lines.map((line) => `"${line}"`).join(' ')
  return [
    'probe_status=$?; \\builtin declare -A M',
    `\\builtin printf '%s\\n' ${quoted}`,
    'umask',
    `alias ll lt 2>/dev/null || :`,
    `[[ -o pipefail ]] && \\builtin echo pipefail || :`,
    `shopt -p ${SHOPTS.join(' ')} || :`,
    ...FUNCTIONS.map((name) => `\\builtin declare -f ${name} || :`),
    `\\builtin declare -F ${HIDDEN.join(' ')} || :`,
    ...(traps ? [`trap -p ${SIGNALS.join(' ')}`] : []),
    'unset probe_status',
    'pwd -P',
  ].join('\n')
}

/** The output of the probe in this state. */
export function expected(state, { traps = true } = {}) {
  const { variables, exported, array, map, aliases, functions, letters } = state
  const value = (name) =>
    Object.hasOwn(variables, name) ? `${variables[name]},${exported.includes(name) ? 'x' : ''}` : `unset,`
  const lines = [
    `?=${state.status ?? '*'}`,
    `cwd=${state.cwd}`,
    `old=${state.oldCwd ?? 'none'}`,
    `-=${[...letters].sort().join('')}`,
    `args=${state.words.length}:${state.words.join(' ')}`,
    ...NAMES.map((name) => `${name}=${value(name)}`),
    `A=${array.length > 0 ? `${array.length}:${array.join(' ')}` : ''}`,
    ...KEYS.map((key) => `M[${key}]=${map[key] ?? 'unset'}`),
    state.umask,
    ...['ll', 'lt'].filter((name) => name in aliases).map((name) => `alias ${name}=${quote(aliases[name])}`),
    ...(state.pipefail ? ['pipefail'] : []),
    ...SHOPTS.map((name) => `shopt -${state.shopts.includes(name) ? 's' : 'u'} ${name}`),
    ...FUNCTIONS.filter((name) => name in functions).map((name) => printed(name, functions[name])),
    ...HIDDEN.filter((name) => state.hidden.includes(name)),
    ...(traps
      ? SIGNALS.filter((name) => name in state.traps).map(
          (name) => `trap -- ${quote(state.traps[name])} ${signalName(name)}`,
        )
      : []),
    state.cwd,
  ]
  return `${lines.join('\n')}\n`
}

function signalName(name) {
  return name === 'USR1' ? 'SIGUSR1' : name
}

/** A function in bash's output format. */
function printed(name, body) {
  return plainBash(`${name}() { ${body}; }\ndeclare -f ${name}`).stdout.trimEnd()
}

/** Removes meaningless differences: the order of `$-`, and its letters that are always set. */
export function normalize(output, known) {
  return output
    .replace(
      /^-=(.*)$/m,
      (_, letters) =>
        `-=${[...letters]
          .filter((one) => LETTERS.includes(one))
          .sort()
          .join('')}`,
    )
    .replace(/^declare -f\S* .*\n/gm, '')
    .replace(/^\?=.*$/m, (line) => (known ? line : '?=*'))
}
