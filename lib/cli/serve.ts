/**
 * `nacre serve`: a sandbox over HTTP, until a signal ends it.
 */
import { type Command, InvalidArgumentError } from 'commander'
import type { Preset } from '../options/isolation.js'
import { withExamples } from './examples.js'
import { isolationOption } from './values.js'

interface Options {
  host?: string
  port?: number
  tokenFile?: string
  allowOrigin?: string[]
  cwd?: string
  jobsRoot?: string
  isolation?: Preset
}

export function addServe(program: Command): void {
  const serve = program
    .command('serve')
    .description('serve a sandbox over HTTP; SIGTERM and SIGINT end it and everything that it has started')
    .option('--port <number>', 'where to listen; 0 is any free port (default: 4747)', wholeNumber)
    .option(
      '--host <address>',
      'the address to listen on; all but loopback need a token (default: 127.0.0.1)',
    )
    .option('--token-file <file>', 'a file with the token that requests must have, at least 16 characters')
    .option('--allow-origin <origins...>', 'origins of web pages that may call')
    .option('--cwd <directory>', 'where sessions start (default: here)')
    .option('--jobs-root <directory>', 'where durable jobs are kept')
    .addOption(isolationOption())
    .action(run)
  withExamples(serve, [
    ['nacre serve', 'on http://127.0.0.1:4747, for this machine alone'],
    ['nacre serve --port 0 --cwd app', 'on any free port, with sessions in app'],
    ['nacre serve --host 0.0.0.0 --token-file token', 'for other machines, which need the token'],
  ])
}

async function run({ cwd, jobsRoot, isolation, allowOrigin, ...options }: Options): Promise<void> {
  const [{ Sandbox }, { serve }] = await Promise.all([
    import('../backends/native/sandbox.js'),
    import('../server/serve.js'),
  ])
  const sandbox = new Sandbox({ cwd, jobsRoot, isolation, logger: stderrLogger })
  try {
    const { url } = await serve(sandbox, { ...options, allowedOrigins: allowOrigin, logger: stderrLogger })
    console.log(`nacre listens on ${url}`)
  } catch (error) {
    await sandbox.destroy()
    throw error
  }
}

function wholeNumber(text: string): number {
  if (/^\d{1,5}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}

/** Standard output is for the address alone. */
const stderrLogger = {
  debug() {},
  info: (message: string) => console.error(message),
  warn: (message: string) => console.error(message),
  error: (message: string) => console.error(message),
}
