/** `nacre record`: runs a command in a terminal, as `nacre exec --tty` does, and records what it shows. */
import { KNOWN_SECRETS, type Preset, Redactor, secretValues } from 'nacre/internal'
import {
  type Command,
  commandOf,
  duration,
  existingDirectory,
  type Finish,
  isolationOption,
  runInTerminal,
  stderrLogger,
  terminalSize,
  variable,
  withExamples,
} from 'nacre/internal/cli'
import { OneFile } from '../recording/one-file.js'
import { statusOf } from '../recording/recorder.js'
import { Track } from '../recording/track.js'

interface Options {
  output?: string
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  isolation?: Preset
}

export function addRecord(program: Command, finish: Finish): void {
  const verb = program
    .command('record')
    .description('run a command or a shell in a terminal, and record what it shows, as asciicast v3')
    .argument('[command...]', 'as for `nacre exec`; without one, a shell')
    .option('-o, --output <file>', 'the recording, which must not exist yet (default: a name with the time)')
    .option('--cwd <directory>', 'run in this directory', existingDirectory)
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .option('--timeout <time>', 'kill the command after this time, like 500ms, 10s, 2m or 1h', duration)
    .addOption(isolationOption())
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      finish(await record(words.length === 0 ? ['bash'] : commandOf(words, verb), options))
    })
  withExamples(verb, [
    ['nacre record', 'records a shell until it ends'],
    ['nacre record --output build.cast make all', 'records a command'],
    ['nacre replay build.cast', 'plays it again'],
  ])
}

/** The exit code of the command. */
async function record(command: string | string[], options: Options): Promise<number> {
  const { env, cwd, timeout, isolation } = options
  const files = await OneFile.create(options.output ?? `nacre-${now()}.cast`)
  const track = new Track(
    files,
    new Redactor([...secretValues(process.env), ...KNOWN_SECRETS]),
    stderrLogger,
    {
      name: files.file,
      title: typeof command === 'string' ? command : command.join(' '),
      size: terminalSize(),
    },
  )
  const { Sandbox } = await import('nacre')
  const decoder = new TextDecoder()
  try {
    await using sandbox = new Sandbox({ env, isolation })
    return await runInTerminal(
      sandbox,
      command,
      { cwd, timeout },
      {
        output(event) {
          if (event.missing !== undefined) track.lose(event.missing)
          if (event.type === 'exit') track.exit(event.time, statusOf(event))
          else track.output(event.time, decoder.decode(event.data, { stream: true }))
        },
        resize: (size) => track.resize(new Date(), size),
      },
    )
  } finally {
    await track.close()
    process.stderr.write(`nacre: recorded in ${files.file}\n`)
  }
}

/** Like 2026-01-31T12-00-00. */
function now(): string {
  return new Date().toISOString().slice(0, 19).replaceAll(':', '-')
}
