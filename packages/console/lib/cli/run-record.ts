/** What `nacre record` does. */
import { KNOWN_SECRETS, type Preset, Redactor, secretValues } from 'nacre/internal'
import { runInTerminal, secretsIn, stderrLogger, terminalSize } from 'nacre/internal/cli'
import { OneFile } from '../recording/one-file.js'
import { statusOf } from '../recording/recorder.js'
import { Track } from '../recording/track.js'

export interface Options {
  output?: string
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  isolation?: Preset
  redactFile?: string
}

/** Resolves with the exit code of the command. */
export async function record(command: string | string[], options: Options): Promise<number> {
  const { env, cwd, timeout, isolation } = options
  const secrets = secretsIn(options.redactFile)
  const files = await OneFile.create(options.output ?? `nacre-${now()}.cast`)
  const track = new Track(
    files,
    new Redactor([...secretValues({ ...process.env, ...env }), ...secrets, ...KNOWN_SECRETS]),
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
    if (await files.close()) process.stderr.write(`nacre: recorded in ${files.file}\n`)
  }
}

/** Like 2026-01-31T12-00-00. */
function now(): string {
  return new Date().toISOString().slice(0, 19).replaceAll(':', '-')
}
