/**
 * `nacre completion`: prints a script that completes verbs, options and values in a shell.
 *
 * The scripts know nothing about the verbs: at each Tab they run `nacre __complete` with the words before the cursor. Its first
 * line says what completes the last of them, a tab separates each word below it from its description.
 *
 * Without `nacre` on PATH they run the installation that has printed them, never one that the present directory has: a Tab must
 * not run programs of a directory that another user controls.
 */
import { Argument, type Command, type Option } from 'commander'
import { withExamples } from './examples.js'
import { write } from './terminal.js'

const SCRIPTS = {
  bash: `# bash completion for nacre
_nacre() {
  local current=\${COMP_WORDS[COMP_CWORD]} lines
  COMPREPLY=()
  local -a program=(nacre)
  type -P nacre >/dev/null || program=(@PROGRAM@)
  mapfile -t lines < <(command "\${program[@]}" __complete "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ $current == = ]] && current=
  case \${lines[0]} in
    directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$current") ;;
    file | rest*) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$current") ;;
    command) mapfile -t COMPREPLY < <(compgen -c -- "$current") ;;
    words) COMPREPLY=("\${lines[@]:1}"); COMPREPLY=("\${COMPREPLY[@]%%$'\\t'*}") ;;
  esac
}
complete -F _nacre nacre
`,
  zsh: `#compdef nacre
# zsh completion for nacre
_nacre() {
  local -a lines candidates program
  program=(nacre)
  whence -p nacre >/dev/null || program=(@PROGRAM@)
  lines=("\${(@f)$(command $program __complete "\${(@)words[2,CURRENT]}" 2>/dev/null)}")
  case $lines[1] in
    directory) compset -P '--*='; _files -/ ;;
    file) compset -P '--*='; _files ;;
    command) _command_names -e ;;
    rest*) shift \${lines[1]#rest } words; (( CURRENT -= \${lines[1]#rest } )); _normal ;;
    words)
      candidates=("\${(@)lines[2,-1]//:/\\\\:}")
      candidates=("\${(@)candidates/$'\\t'/:}")
      _describe nacre candidates ;;
  esac
}
if [ "\${funcstack[1]}" = _nacre ]; then
  _nacre "$@"
else
  compdef _nacre nacre
fi
`,
  fish: `# fish completion for nacre
function __nacre_complete
    set -l current (commandline -ct)
    set -l words (commandline -opc) $current
    set -l program nacre
    command -q nacre; or set program @PROGRAM@
    set -l lines (command $program __complete $words[2..-1] 2>/dev/null)
    set -l prefix (string match -r -- '^--[^=]+=' "$current")
    set -l value (string replace -- "$prefix" '' "$current")
    switch "$lines[1]"
        case directory
            __fish_complete_directories "$value" | string replace -r -- '^' "$prefix"
        case file
            __fish_complete_path "$value" | string replace -r -- '^' "$prefix"
        case command
            __fish_complete_command
        case 'rest *'
            set -l skipped (string replace 'rest ' '' $lines[1])
            set -l rest (string escape -- $words[(math $skipped + 1)..-2])
            complete -C "$rest $current"
        case words
            printf '%s\\n' $lines[2..-1]
    end
end
complete -c nacre -f -a '(__nacre_complete)'
`,
}
type Shell = keyof typeof SCRIPTS

export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(Object.keys(SCRIPTS)))
    .action(async (shell: Shell) => {
      const self = [process.execPath, process.argv[1] ?? ''].map((word) => quoted(word, shell)).join(' ')
      await write(
        process.stdout,
        SCRIPTS[shell].replace('@PROGRAM@', () => self),
      )
    })
  withExamples(completion, [
    ['source <(nacre completion bash)', 'add this to ~/.bashrc'],
    ['source <(npx nacre completion bash)', 'for a local install, with an alias: nacre="npx nacre"'],
    ['source <(nacre completion zsh)', 'add this to ~/.zshrc, after compinit'],
    ['nacre completion fish | source', 'add this to ~/.config/fish/config.fish'],
  ])
}

/** A word of a script. Within single quotes, fish alone knows escapes. */
function quoted(word: string, shell: Shell): string {
  if (shell === 'fish') return `'${word.replaceAll(/[\\']/g, '\\$&')}'`
  return `'${word.replaceAll("'", "'\\''")}'`
}

/** `nacre __complete`, which the scripts run. No verb of commander's, since it takes every word as it is. */
export async function printCompletion(program: Command, words: readonly string[]): Promise<void> {
  await write(process.stdout, `${completionOf(program, words).join('\n')}\n`)
}

/** The lines for a shell: what completes the last of the words, which may be empty. */
export function completionOf(program: Command, words: readonly string[]): string[] {
  const typed = words.slice(0, -1)
  let current = words.at(-1) ?? ''
  if (current === '=') {
    typed.push(current)
    current = ''
  }
  let verb = program
  let operands = 0
  let literal = false
  for (let at = 0; at < typed.length; at++) {
    const word = typed[at] ?? ''
    const below = find(verb, word)
    if (!literal && word === '--') literal = true
    else if (!literal && word.startsWith('-')) {
      const option = optionOf(verb, word)
      if (option === undefined) continue
      // bash splits --option=value into three words.
      if (typed[at + 1] === '=') at++
      at++
      if (at === typed.length) return values(valueName(option), option, current)
    } else if (operands === 0 && below !== undefined) {
      // `help` takes the verbs beside it.
      if (word !== 'help') verb = below
    } else if (verb.registeredArguments[0]?.name() === 'command') return [`rest ${at + 1}`]
    else operands++
  }
  if (literal || !current.startsWith('-')) return operandsOf(verb, operands, current)
  const [flag = '', ...given] = current.split('=')
  if (given.length === 0) return matching(optionRows(verb), current)
  const option = optionOf(verb, flag)
  return option === undefined ? ['words'] : values(valueName(option), option, current, `${flag}=`)
}

function find(verb: Command, word: string): Command | undefined {
  return visibleVerbs(verb).find((one) => one.name() === word || one.aliases().includes(word))
}

function visibleVerbs(verb: Command): Command[] {
  return verb.createHelp().visibleCommands(verb)
}

/** An option of the verb that takes a value. */
function optionOf(verb: Command, flag: string): Option | undefined {
  return visibleOptions(verb).find(
    ({ short, long, required, optional }) => (required || optional) && (flag === short || flag === long),
  )
}

function visibleOptions(verb: Command): Option[] {
  return verb.createHelp().visibleOptions(verb)
}

function optionRows(verb: Command): string[] {
  return visibleOptions(verb).flatMap(({ short, long, description }) =>
    [short, long].filter((flag) => flag !== undefined).map((flag) => `${flag}\t${description}`),
  )
}

function operandsOf(verb: Command, before: number, current: string): string[] {
  const verbs = visibleVerbs(verb)
  if (verbs.length > 0) return before > 0 ? ['words'] : matching(verbs.flatMap(verbRows), current)
  const [argument] = verb.registeredArguments
  return argument === undefined ? ['words'] : values(argument.name(), argument, current)
}

function verbRows(verb: Command): string[] {
  return [verb.name(), ...verb.aliases()].map((name) => `${name}\t${verb.description()}`)
}

/** By the choices of a value, or else by the name that the help shows, like `<directory>`. */
function values(name: string, { argChoices }: Option | Argument, current: string, prefix = ''): string[] {
  if (argChoices !== undefined)
    return matching(
      argChoices.map((choice) => `${prefix}${choice}\t`),
      current,
    )
  return name === 'directory' || name === 'file' || name === 'command' ? [name] : ['words']
}

function valueName({ flags }: Option): string {
  return /[<[]([\w-]+)/.exec(flags)?.[1] ?? ''
}

function matching(rows: string[], current: string): string[] {
  return ['words', ...rows.filter((row) => row.startsWith(current))]
}
