/** What `nacre record` does. */
import { type kinds, redaction } from 'nacre/internal'
import { flags, printing, runInTerminal, terminalSize } from 'nacre/internal/cli'
import { OneFile } from '../recording/one-file.js'
import { statusOf } from '../recording/recorder.js'
import { Track } from '../recording/track.js'

export interface Options {
  output?: string
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  isolation?: kinds.Preset
  redactFile?: string
}

/** Resolves with the exit code of the command. */
export async function record(command: string | string[], options: Options): Promise<number> {
  const { env, cwd, timeout, isolation } = options
  const secrets = flags.secretsIn(options.redactFile)
  const files = await OneFile.create(options.output ?? `nacre-${now()}.cast`)
  const track = new Track(
    files,
    new redaction.Redactor([
      ...redaction.secretValues({ ...process.env, ...env }),
      ...secrets,
      ...redaction.KNOWN_SECRETS,
    ]),
    printing.stderrLogger,
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
    if (await files.close()) process.stderr.write(`nacre: recorded in ${files.file}\n`)
  }
}

/** Like 2026-01-31T12-00-00. */
function now(): string {
  return new Date().toISOString().slice(0, 19).replaceAll(':', '-')
}
