/**
 * Completion in zsh: one function for each verb, on `_arguments`.
 */
import { quote } from './quote.js'
import { everyVerb, type OptionShape, type Value, type VerbShape } from './shape.js'

export function zshScript(program: VerbShape): string {
  const functions = everyVerb(program).map((verb) => (verb.verbs.length > 0 ? group(verb) : leaf(verb)))
  const main = functionOf(program)
  return `#compdef ${program.name}
# zsh completion for ${program.name}

${functions.join('\n\n')}

if [ "\${funcstack[1]}" = ${main} ]; then
  ${main} "$@"
else
  compdef ${main} ${program.name}
fi
`
}

/** A verb with verbs: the first operand chooses one, and its function completes the rest. */
function group(verb: VerbShape): string {
  const rows = verb.verbs.map(({ name, description }) =>
    quote(`${name.replaceAll(':', '\\:')}:${description}`),
  )
  const cases = verb.verbs.map(
    (one) => `        ${[one.name, ...one.aliases].join(' | ')}) ${functionOf(one)} ;;`,
  )
  return `${functionOf(verb)}() {
  local curcontext="$curcontext" state line
  typeset -A opt_args
  local -a verbs
  verbs=(
    ${rows.join('\n    ')}
  )
  _arguments -C \\
    ${[...verb.options.map(option), "'1: :->verb'", "'*:: :->rest'"].join(' \\\n    ')}
  case $state in
    verb) _describe verb verbs ;;
    rest)
      case "\${words[1]}" in
${cases.join('\n')}
      esac ;;
  esac
}`
}

function leaf(verb: VerbShape): string {
  const [operand] = verb.operands
  const operands = operand === undefined ? [] : [quote(operandOf(operand))]
  return `${functionOf(verb)}() {
  _arguments -S \\
    ${[...verb.options.map(option), ...operands].join(' \\\n    ')}
}`
}

/** The words of another command are completed as on a line of their own. */
function operandOf({ name, value }: { name: string; value: Value }): string {
  return value === 'command' ? `*::${name}:_normal` : `*:${escapeSpec(name)}:${actionOf(value)}`
}

function option({ flags, description, value }: OptionShape): string {
  const text = `[${escapeSpec(description)}]`
  const argument = value === undefined ? '' : `:value:${actionOf(value)}`
  const spec = (flag: string) =>
    quote(`${flag}${value !== undefined && flag.startsWith('--') ? '=' : ''}${text}${argument}`)
  const [only = '', ...others] = flags
  if (others.length === 0) return spec(only)
  return flags.map((flag) => `${quote(`(${flags.join(' ')})`)}${spec(flag)}`).join(' \\\n    ')
}

function actionOf(value: Value): string {
  if (typeof value === 'object') return `(${value.choices.join(' ')})`
  return { directory: '_files -/', file: '_files', command: '_normal', text: ' ' }[value]
}

function functionOf({ path }: VerbShape): string {
  return `_${path.replaceAll(/[ -]/g, '_')}`
}

/** Brackets and colons separate the parts of a spec. */
function escapeSpec(text: string): string {
  return text.replaceAll(/[[\]:\\]/g, '\\$&')
}
