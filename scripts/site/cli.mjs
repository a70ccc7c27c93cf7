/** The reference page of the command line, from the definitions of commander. */
import { addCompanionVerbs } from '../../dist/cli/companions.js'
import { everyVerb, shapeOf } from '../../dist/cli/completion/shape.js'
import { createProgram } from '../../dist/cli/program.js'

export async function cliPage() {
  const program = createProgram(() => {})
  await addCompanionVerbs(program, () => {})
  const verbs = everyVerb(shapeOf(program)).filter(({ name }) => name !== 'help')
  const head =
    '# Command line\n\nLook up a command of `nacre`, its options and examples. `nacre <command> --help` prints the same text.\n'
  return [head, ...verbs.map((verb) => section(verb, commandAt(program, verb.path)))].join('\n')
}

/** The command for a path like `nacre job logs`. */
function commandAt(program, path) {
  const [, ...names] = path.split(' ')
  return names.reduce((command, name) => command.commands.find((each) => each.name() === name), program)
}

function section({ path, description, options }, command) {
  const usage = `${path} ${command.usage()}`
  const rows = options.map(({ flags, description: meaning, value }) => {
    const choices =
      typeof value === 'object' ? ` One of ${value.choices.map((each) => `\`${each}\``).join(', ')}.` : ''
    return `| ${flags.map((flag) => `\`${flag}\``).join(', ')} | ${sentence(meaning)}${choices} |`
  })
  return [
    `## ${path}`,
    '',
    sentence(description),
    '',
    '```text',
    usage,
    '```',
    '',
    ...(rows.length === 0 ? [] : ['| option | meaning |', '| --- | --- |', ...rows, '']),
    ...examples(command),
  ].join('\n')
}

/** The examples at the end of a command's help. */
function examples(command) {
  let text = ''
  command.configureOutput({ writeOut: (part) => (text += part) }).outputHelp()
  const [, lines] = text.split('\nExamples:\n')
  return lines === undefined ? [] : ['```sh', lines.replaceAll(/^ {2}/gm, '').trimEnd(), '```', '']
}

function sentence(text) {
  return escapeCell(text === '' ? '' : `${text[0].toUpperCase()}${text.slice(1).replace(/\.$/, '')}.`)
}

function escapeCell(text) {
  return text.replaceAll('|', '\\|').replaceAll('<', '&lt;')
}
