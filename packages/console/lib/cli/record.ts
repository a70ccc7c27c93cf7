/** `nacre record`: runs a command in a terminal, as `nacre exec --tty` does, and records what it shows. */
import { type Command, type Finish, flags, withExamples } from 'nacre/internal/cli'
import type { Options } from './run-record.js'

export function addRecord(program: Command, finish: Finish): void {
  const verb = program
    .command('record')
    .description('run a command or a shell in a terminal, and record what it shows, as asciicast v3')
    .argument('[command...]', 'as for `nacre exec`; without one, a shell')
    .option('-o, --output <file>', 'the recording, which must not exist yet (default: a name with the time)')
    .option('--cwd <directory>', 'run in this directory', flags.existingDirectory)
    .option('--env <name=value>', 'set a variable; can be repeated', flags.variable)
    .option('--timeout <time>', 'kill the command after this time, like 500ms, 10s, 2m or 1h', flags.duration)
    .addOption(flags.isolationOption())
    .option('--redact-file <file>', 'values that the recording must never show, one per line')
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      const { record } = await import('./run-record.js')
      finish(await record(words.length === 0 ? ['bash'] : flags.commandOf(words, verb), options))
    })
  withExamples(verb, [
    ['nacre record', 'records a shell until it ends'],
    ['nacre record --output build.cast make all', 'records a command'],
    ['nacre replay build.cast', 'plays it again'],
  ])
}
