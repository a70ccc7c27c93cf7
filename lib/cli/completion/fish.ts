/**
 * Completion in fish: one `complete` for each verb and option, under the condition that its verb has been typed.
 */
import { quote as quoteWord } from './quote.js'
import { everyVerb, type OptionShape, type Value, type VerbShape } from './shape.js'

export function fishScript(program: VerbShape): string {
  const verbs = everyVerb(program)
  const paths = verbs.filter(({ verbs: below }) => below.length > 0)
  const steps = paths.flatMap(({ path, verbs: below }) =>
    below.flatMap((verb) =>
      [verb.name, ...verb.aliases].map(
        (word) =>
          `            case ${quote(`${path} ${word}`)}\n                set path ${quote(verb.path)}`,
      ),
    ),
  )
  return `# fish completion for ${program.name}
function __${program.name}_at --description 'Whether this verb has been typed'
    set -l path ${program.name}
    for word in (commandline -opc)[2..-1]
        switch "$path $word"
${steps.join('\n')}
        end
    end
    test "$path" = "$argv[1]"
end

${verbs.flatMap((verb) => lines(program.name, verb)).join('\n')}
`
}

function lines(program: string, verb: VerbShape): string[] {
  const begin = `complete -c ${program} -n ${quote(`__${program}_at ${quote(verb.path).replaceAll("'", '"')}`)}`
  const [operand] = verb.operands
  const completed = operand === undefined ? '-f' : argumentOf(operand.value)
  return [
    `${begin} ${completed}`,
    ...verb.verbs.map(({ name, description }) => `${begin} -f -a ${name} -d ${quote(description)}`),
    ...verb.options.map((option) => `${begin} ${optionOf(option)}`),
  ]
}

function optionOf({ flags, description, value }: OptionShape): string {
  const names = flags.map((flag) => (flag.startsWith('--') ? `-l ${flag.slice(2)}` : `-s ${flag.slice(1)}`))
  const argument = value === undefined ? [] : ['-r', argumentOf(value)]
  return [...names, ...argument, '-d', quote(description)].join(' ')
}

/** Within single quotes fish reads a backslash as an escape. */
function quote(text: string): string {
  return quoteWord(text.replaceAll('\\', '\\\\'))
}

/** -f completes no files, -F completes them. */
function argumentOf(value: Value): string {
  if (typeof value === 'object') return `-f -a ${quote(value.choices.join(' '))}`
  return {
    directory: "-f -a '(__fish_complete_directories)'",
    file: '-F',
    command: "-F -a '(__fish_complete_subcommand)'",
    text: '-f',
  }[value]
}
