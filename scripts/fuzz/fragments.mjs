/** Pieces of commands that change the state, with their effects. They are plain data, so that a run can be repeated. */
import { quote } from './bash.mjs'
import { copy, FUNCTIONS, HIDDEN, KEYS, LETTERS, NAMES, SHOPTS, SIGNALS } from './state.mjs'

const VALUES = [
  '',
  'a b',
  "it's",
  'two\nlines\n',
  '*',
  '$HOME `id`',
  'é€𝄞',
  'back\\slash',
  '-n',
  'tab\tand\x01control\x7f',
  '"',
  'v'.repeat(3000),
  '=',
  '(',
  '!x',
]
const BODIES = ['echo body', 'return 3', 'for i in 1 2; do :; done', 'cat <<< "$1"', 'x=$1', '( exit 2 )']

const generators = {
  set: (random) => ({ name: random.pick(NAMES), value: random.pick(VALUES) }),
  export: (random) => ({ name: random.pick(NAMES), value: random.pick(VALUES) }),
  unset: (random) => ({ name: random.pick(NAMES) }),
  array: (random) => ({ values: random.list(0, 4, () => random.pick(VALUES)) }),
  append: (random) => ({ value: random.pick(VALUES) }),
  map: (random) => ({ key: random.pick(KEYS), value: random.pick(VALUES) }),
  unmap: () => ({}),
  function: (random) => ({ name: random.pick(FUNCTIONS), body: random.pick(BODIES) }),
  unfunction: (random) => ({ name: random.pick(FUNCTIONS) }),
  hide: (random) => ({ name: random.pick(HIDDEN) }),
  unhide: (random) => ({ name: random.pick(HIDDEN) }),
  alias: (random) => ({ name: random.pick(['ll', 'lt']), value: random.pick(['ls -l', 'echo "$x"', '']) }),
  unalias: () => ({}),
  cd: (random) => ({ to: random.pick(['', '/d1', '/d1/d 2', '/d3']) }),
  up: () => ({}),
  umask: (random) => ({ mask: random.pick(['0022', '0027', '0077', '0002']) }),
  letter: (random) => ({ letter: random.pick(LETTERS), on: random.chance(0.4) }),
  pipefail: (random) => ({ on: random.chance(0.5) }),
  shopt: (random) => ({ name: random.pick(SHOPTS), on: random.chance(0.5) }),
  trap: (random) => ({ name: random.pick(SIGNALS), text: random.pick([':', ': "it\'s"', '']) }),
  untrap: (random) => ({ name: random.pick(SIGNALS) }),
  words: (random) => ({ words: random.list(0, 3, () => random.pick(VALUES)) }),
  noise: (random) => ({
    text: random.pick([
      ':',
      '/bin/true',
      ': "$(:)"',
      '( : )',
      ': | :',
      'for n in 1 2 3; do m=$n; done',
      ': <<< here',
      'q=$((1 + 2))',
      ': < <(:)',
      '{ :; } 2>/dev/null',
    ]),
  }),
}

const weights = { set: 6, export: 3, cd: 4, letter: 3, noise: 4 }

/** Makes a random fragment. */
export function fragment(random) {
  const kind = random.weighted(
    Object.fromEntries(Object.keys(generators).map((name) => [name, weights[name] ?? 1])),
  )
  return { kind, ...generators[kind](random) }
}

/** The text of a fragment. */
export function text(one, root) {
  switch (one.kind) {
    case 'set':
      return `${one.name}=${quote(one.value)}`
    case 'export':
      return `export ${one.name}=${quote(one.value)}`
    case 'unset':
      return `unset ${one.name}`
    case 'array':
      return `A=(${one.values.map(quote).join(' ')})`
    case 'append':
      return `A+=(${quote(one.value)})`
    case 'map':
      return `\\builtin declare -A M; M[${quote(one.key)}]=${quote(one.value)}`
    case 'unmap':
      return 'unset M; \\builtin declare -A M'
    case 'function':
      return `${one.name}() { ${one.body}; }`
    case 'hide':
      return `${one.name}() { return 9; }`
    case 'unfunction':
    case 'unhide':
      return `unset -f ${one.name}`
    case 'alias':
      return `alias ${one.name}=${quote(one.value)}`
    case 'unalias':
      return 'unalias -a'
    case 'cd':
      return `cd ${quote(root + one.to)}`
    case 'up':
      return 'cd ..; cd "$OLDPWD"'
    case 'umask':
      return `umask ${one.mask}`
    case 'letter':
      return `set ${one.on ? '-' : '+'}${one.letter}`
    case 'pipefail':
      return `set ${one.on ? '-' : '+'}o pipefail`
    case 'shopt':
      return `shopt -${one.on ? 's' : 'u'} ${one.name}`
    case 'trap':
      return `trap -- ${quote(one.text)} ${one.name}`
    case 'untrap':
      return `trap - ${one.name}`
    case 'words':
      return `set -- ${one.words.map(quote).join(' ')}`
    default:
      return one.text
  }
}

/** The state after a fragment. */
export function apply(before, one, root) {
  const state = copy(before)
  const { variables, traps } = state
  const mark = (list, name, on) => {
    const without = list.filter((other) => other !== name)
    return on ? [...without, name] : without
  }
  const assign = (name, exported) => {
    variables[name] = one.value
    if (exported || state.letters.includes('a')) state.exported = mark(state.exported, name, true)
  }
  state.status = 0
  if (one.kind === 'set') assign(one.name, false)
  if (one.kind === 'export') assign(one.name, true)
  if (one.kind === 'unset') {
    delete variables[one.name]
    state.exported = mark(state.exported, one.name, false)
  }
  if (one.kind === 'array') state.array = one.values
  if (one.kind === 'append') state.array = [...state.array, one.value]
  if (one.kind === 'map') state.map[one.key] = one.value
  if (one.kind === 'unmap') state.map = {}
  if (one.kind === 'function') state.functions[one.name] = one.body
  if (one.kind === 'unfunction') delete state.functions[one.name]
  if (one.kind === 'hide') state.hidden = mark(state.hidden, one.name, true)
  if (one.kind === 'unhide') state.hidden = mark(state.hidden, one.name, false)
  if (one.kind === 'alias') state.aliases[one.name] = one.value
  if (one.kind === 'unalias') state.aliases = {}
  if (one.kind === 'cd') [state.oldCwd, state.cwd] = [state.cwd, root + one.to]
  if (one.kind === 'up') state.oldCwd = state.cwd.slice(0, state.cwd.lastIndexOf('/'))
  if (one.kind === 'umask') state.umask = one.mask
  if (one.kind === 'letter') state.letters = mark(state.letters, one.letter, one.on)
  if (one.kind === 'pipefail') state.pipefail = one.on
  if (one.kind === 'shopt') state.shopts = mark(state.shopts, one.name, one.on)
  if (one.kind === 'trap') traps[one.name] = one.text
  if (one.kind === 'untrap') delete traps[one.name]
  if (one.kind === 'words') state.words = one.words
  return state
}
