/** The options of `nacre-compat`, and of `nacre serve --e2b` and `nacre serve --daytona`. */

import { VERSION } from 'nacre/internal'
import { Command, flags, nearSuggestions, withExamples } from 'nacre/internal/cli'
import type { Flags } from './run.js'

/** `name` is what the user has called. */
export function defineProgram(name: string): Command {
  const program = new Command(name)
    .version(VERSION, '-V, --version')
    .description(
      'serve the API of E2B, of Daytona or of both on 127.0.0.1; prints the variables that point their SDKs here. With a command, runs it with these ' +
        'variables, and ends with its exit code',
    )
    .argument('[command...]', 'a program and its arguments, after --')
    .option(
      '--e2b [port]',
      'serve the API of E2B; port 0 selects a free one (default: 49983, with a command a free one)',
      flags.wholeNumber,
    )
    .option(
      '--daytona [port]',
      'the same for Daytona (default: 3986, with a command a free one)',
      flags.wholeNumber,
    )
    .option(
      '--root <directory>',
      'the directory of the sandboxes; paused and stopped ones stay there. With both APIs, that of the ' +
        'directories e2b and daytona (default: ~/.local/state/nacre/e2b or daytona, with a command a temporary one)',
    )
    .option(
      '--max-sandboxes <number>',
      'how many sandboxes of each API may run at the same time (default: 20)',
      flags.wholeNumber,
    )
    .exitOverride()
    .showHelpAfterError('(add --help for the options)')
    .configureOutput(nearSuggestions)
  program.addOption(
    program
      .createOption('--isolation <preset>', 'what programs may read, write and reach')
      .choices(['workspace', 'workspace+network', 'none'])
      .default('workspace+network'),
  )
  program.action(async (command: string[], flags: Flags) => {
    const { run } = await import('./run.js')
    process.exitCode = await run(command, flags)
  })
  withExamples(program, [
    [`${name} --e2b`, 'prints the variables, and serves until a signal'],
    [`${name} --e2b -- npm test`, 'runs the tests against a server of their own'],
    [`${name} --e2b --daytona`, 'serves both APIs'],
  ])
  return program
}
