/**
 * Completion in bash 4.4 or newer.
 *
 * The function follows the words before the cursor down to the verb. A table, made from the definitions, has for each
 * verb its verbs, its options, and what completes their values.
 */
import { quote } from './quote.js'
import { everyVerb, type Value, type VerbShape } from './shape.js'

export function bashScript(program: VerbShape): string {
  return `# bash completion for ${program.name}
_${program.name}_verb() {
  verbs= options= values= operand=text
  case $1 in
${everyVerb(program).map(entry).join('\n')}
  esac
}

_${program.name}_complete() {
  case $1 in
    directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    text) ;;
    *) mapfile -t COMPREPLY < <(compgen -W "\${1//,/ }" -- "$current") ;;
  esac
}

_${program.name}() {
  local current=\${COMP_WORDS[COMP_CWORD]} verb=${program.name} words=("\${COMP_WORDS[@]:1:COMP_CWORD-1}")
  local verbs options values operand index word pair value found=no literal=no
  COMPREPLY=()
  # bash splits --option=value into three words.
  [[ $current == = ]] && current= && words+=('=')
  _${program.name}_verb "$verb"
  for ((index = 0; index < \${#words[@]}; index++)); do
    word=\${words[index]}
    if [[ $literal == no && $word == -- ]]; then
      literal=yes
    elif [[ $literal == no && $word == -* ]]; then
      value=
      for pair in $values; do
        [[ \${pair%%:*} == "$word" ]] && value=\${pair#*:}
      done
      [[ -z $value ]] && continue
      [[ \${words[index + 1]-} == = ]] && ((index++))
      if ((index + 1 == \${#words[@]})); then
        _${program.name}_complete "$value"
        return
      fi
      ((index++))
    elif [[ -n $word && " $verbs " == *" $word "* ]]; then
      verb="$verb $word"
      _${program.name}_verb "$verb"
    elif [[ $operand == command ]]; then
      # The rest belongs to that command.
      _${program.name}_complete file
      return
    else
      found=yes
    fi
  done
  if [[ $literal == no && $current == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
  elif [[ -n $verbs ]]; then
    [[ $found == yes ]] || mapfile -t COMPREPLY < <(compgen -W "$verbs" -- "$current")
  else
    _${program.name}_complete "$operand"
  fi
}

complete -F _${program.name} ${program.name}
`
}

function entry({ path, aliases, verbs, options, operands }: VerbShape): string {
  const parent = path.slice(0, path.lastIndexOf(' '))
  const patterns = [path, ...aliases.map((alias) => `${parent} ${alias}`)].map(quote).join(' | ')
  const values = options.flatMap(({ flags, value }) =>
    value === undefined ? [] : flags.map((flag) => `${flag}:${nameOf(value)}`),
  )
  return `    ${patterns})
      verbs=${quote(verbs.flatMap(({ name, aliases: others }) => [name, ...others]).join(' '))}
      options=${quote(options.flatMap(({ flags }) => flags).join(' '))}
      values=${quote(values.join(' '))}
      operand=${quote(nameOf(operands[0]?.value ?? 'text'))} ;;`
}

function nameOf(value: Value): string {
  return typeof value === 'string' ? value : value.choices.join(',')
}
