/** The reference of the command line, from the definitions of commander. */
import { addCompanionVerbs } from '../../dist/cli/companions.js'
import { createProgram } from '../../dist/cli/program.js'
import { splitPages } from './groups.mjs'

const GROUPS = [
  { page: 'jobs', title: 'Command line: jobs and queues', pattern: /^nacre (job|queue|worker)/ },
  { page: 'workspace', title: 'Command line: workspaces', pattern: /^nacre (try|workspace)/ },
  {
    page: 'servers',
    title: 'Command line: servers and recordings',
    pattern: /^nacre (serve|mcp|record|replay)/,
  },
  { page: 'commands', title: 'Command line: commands, containers and files', pattern: /^nacre / },
]

export async function cliPages() {
  const program = createProgram(() => {})
  await addCompanionVerbs(program, () => {})
  const head =
    '# Command line\n\nLook up a command of `nacre`, its options and examples. `nacre <command> --help` prints the same text.\n'
  const [own, ...below] = sections(program, '')
  return splitPages('cli', `${head}\n${own.text}`, GROUPS, below)
}

/** The section of a command, and those of the commands below it. */
function sections(command, parent) {
  const help = command.createHelp()
  const path = `${parent} ${command.name()}`.trimStart()
  const below = help.visibleCommands(command).filter((each) => each.name() !== 'help')
  return [
    { title: path, text: section(path, command, help.visibleOptions(command)) },
    ...below.flatMap((each) => sections(each, path)),
  ]
}

function section(path, command, options) {
  const rows = options.map(({ short, long, description, argChoices }) => {
    const flags = [short, long].filter((flag) => flag !== undefined).map((flag) => `\`${flag}\``)
    const choices = argChoices && ` One of ${argChoices.map((each) => `\`${each}\``).join(', ')}.`
    return `| ${flags.join(', ')} | ${sentence(description)}${choices ?? ''} |`
  })
  return [
    `## ${path}`,
    '',
    sentence(command.description()),
    '',
    '```text',
    `${path} ${command.usage()}`,
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
