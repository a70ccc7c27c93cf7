/**
 * `nacre serve`: a sandbox over HTTP, until a signal ends it.
 */

import type { SandboxOptions } from 'nacre'
import {
  type Command,
  checkSandbox,
  flags,
  network,
  OptionError,
  printing,
  withExamples,
} from 'nacre/internal/cli'
import type { SandboxdOptions, ServingSandboxd } from '../public.js'
import { endOnSignals } from './end-on-signals.js'
import type { RecordingFlags } from './recording.js'

interface Options extends RecordingFlags, network.IsolationFlags {
  stdio?: boolean
  host?: string
  port?: number
  tokenEnv?: string
  allowOrigin?: string[]
  cwd?: string
  jobsRoot?: string
  keep?: string
  stateDir?: string
  copyOnWrite?: true | string
  undoSteps?: number
  awaitArchive?: true
  console?: true
  forwardPorts?: true
  sandboxd?: boolean
  grpcPort?: number
  restPort?: number
  root?: string
  sandboxdHost?: string
  metadataPrefix?: string
}

export function addServe(program: Command): void {
  const isolation = flags.isolationOption()
  const serve = program
    .command('serve')
    .description(
      'serve a sandbox over HTTP; SIGTERM and SIGINT end the server and every process in the sandbox',
    )
    .option(
      '--stdio',
      'serve the program that starts it over standard input and output, without a port; see connectProgram of nacre/engine',
    )
    .option(
      '--port <number>',
      'the port to listen on; 0 selects a free port (default: 4747)',
      flags.wholeNumber,
    )
    .option(
      '--host <address>',
      'the address to listen on; any address except loopback needs a token (default: 127.0.0.1)',
    )
    .option('--token-file <file>', 'a file with the token that requests must send; at least 16 characters')
    .option(
      '--token-env <name>',
      'the variable with that token; it is left out of the environment of commands',
    )
    .option('--allow-origin <origins...>', 'origins of web pages that may send requests')
    .option(
      '--cwd <directory>',
      'the directory in which sessions start (default: the current one)',
      flags.existingDirectory,
    )
    .option('--jobs-root <directory>', 'the directory of durable jobs')
    .option(
      '--keep <name>',
      'keep sessions, and a copy-on-write workspace, under a name; the next server with this name goes on with them',
    )
    .addOption(flags.stateDirOption())
    .addOption(isolation.choices([...(isolation.argChoices ?? []), 'none']))
    .option(
      '--ask',
      'commands have no network, but each host that they connect to is a question for clients and the console; needs --isolation',
    )
  network
    .addNetworkOptions(serve)
    .option(
      '--copy-on-write [id]',
      'keep changes of --cwd in a private layer until a client commits them; with an id, also after the end of the server',
    )
    .option(
      '--undo-steps <number>',
      'how many of the last commands a client of --copy-on-write can take back (default: 0)',
      flags.wholeNumber,
    )
    .option(
      '--await-archive',
      'start no shell before the first call, which can be a client that sends the archive of a suspended sandbox',
    )
    .option(
      '--forward-ports',
      'also forward /v1/ports/<port>/ to programs of the sandbox that listen on a port, with the token or a link that expires',
    )
    .option('--console', 'also serve a page that shows what runs; needs @nacre/console')
    .option(
      '--record <directory>',
      'record what sessions and processes show, as asciicast v3; needs @nacre/console',
    )
    .option(
      '--record-limit <size>',
      'bytes of all recordings, of which the oldest go first (default: 256MB)',
      flags.byteSize,
    )
    .option('--redact-file <file>', 'values that recordings must never show, one per line')
    .option(
      '--sandboxd',
      "also serve the runtime API of Kubernetes' agent-sandbox, which has no authentication",
    )
    .option(
      '--grpc-port <number>',
      'the port of the gRPC service of sandboxd; 0 selects a free port (default: 9090)',
      flags.wholeNumber,
    )
    .option(
      '--rest-port <number>',
      'the port of the REST API of sandboxd; 0 selects a free port (default: 8080)',
      flags.wholeNumber,
    )
    .option(
      '--root <directory>',
      'the directory that confines all paths of sandboxd; created if missing (default: /workspace)',
    )
    .option(
      '--sandboxd-host <address>',
      'the address that both ports listen on, whatever --host is (default: 127.0.0.1)',
    )
    .option(
      '--metadata-prefix <prefix>',
      'the prefix of the variables that sandboxd shows to all clients (default: SANDBOX_)',
    )
    .action(run)
  withExamples(serve, [
    ['nacre serve', 'listens on http://127.0.0.1:4747, for every user of this machine'],
    ['nacre serve --port 0 --cwd app', 'listens on a free port; sessions start in app'],
    [
      'nacre serve --isolation workspace --ask --console',
      'you decide in the console which hosts commands may connect to',
    ],
    ['nacre serve --console', 'also shows what runs on the page http://127.0.0.1:4747/console'],
    [
      'nacre serve --forward-ports',
      'also leads to servers in the sandbox: http://127.0.0.1:4747/v1/ports/3000/',
    ],
    ['nacre serve --copy-on-write task-7', 'goes on with the workspace task-7 of this directory'],
    ['nacre serve --keep agent-7', 'goes on with the sessions that the last server of this name had'],
    ['nacre serve --await-archive --copy-on-write', 'goes on with the archive that a client sends'],
    ['nacre serve --sandboxd --root app', 'also serves the API of agent-sandbox, confined to app'],
    [
      'nacre serve --e2b',
      'serves the API of E2B instead, --daytona that of Daytona; with @nacre/compat, has a --help of its own',
    ],
    ['nacre serve --stdio', 'is started by connectProgram, directly or through ssh'],
    ['nacre serve --host 0.0.0.0 --token-file token', 'accepts other machines that send the token'],
  ])
}

async function run({
  cwd,
  jobsRoot,
  keep,
  stateDir,
  copyOnWrite,
  undoSteps,
  allowOrigin,
  ...options
}: Options): Promise<void> {
  const { stdio, host, port, tokenFile, tokenEnv, awaitArchive, console: hasConsole } = options
  if (stdio) refuseAddress({ allowOrigin, ...options })
  if (stdio && options.record !== undefined)
    throw new OptionError('INVALID_OPTION', '--stdio and --record exclude each other: record in the client')
  if (tokenFile !== undefined && tokenEnv !== undefined)
    throw new OptionError('INVALID_OPTION', '--token-file and --token-env exclude each other')
  const sandboxd = sandboxdOptions(options)
  const [
    { Sandbox },
    { serve },
    { serveStdio },
    { isLoopback },
    { serveOptions },
    { planServe },
    recordings,
  ] = await Promise.all([
    import('nacre'),
    import('../index.js'),
    import('../stdio.js'),
    import('../guard.js'),
    import('../options.js'),
    import('../plan.js'),
    import('./recording.js'),
  ])
  if (host !== undefined && !isLoopback(host) && (tokenFile ?? tokenEnv) === undefined)
    throw new OptionError(
      'INVALID_OPTION',
      `--host ${host} can be reached from other machines: give --token-file or --token-env`,
    )
  const token = takeToken(options, serveOptions.token.read)
  const redact = recordings.unrecorded(options, token)
  const settings = {
    ...{ host, port, token, sandboxd, allowedOrigins: allowOrigin, logger: printing.stderrLogger },
    ...{ console: hasConsole, forwardPorts: options.forwardPorts },
    recordings: hasConsole ? options.record : undefined,
  }
  planServe(settings)
  const workspace = workspaceOf(copyOnWrite, undoSteps)
  const sandbox = new Sandbox({
    ...{ cwd, jobsRoot, keep, stateDir, workspace },
    ...recordings.isolationFor(options),
    logger: printing.stderrLogger,
  })
  try {
    if (!awaitArchive) await checkSandbox(sandbox)
    const recording = await recordings.openRecording(sandbox, options, redact)
    // Its requests are not logged: the client shows what is printed there.
    if (stdio) process.exit((await serveStdio(sandbox, { ...printing.stderrLogger, info() {} })) ? 0 : 1)
    const serving = await serve(sandbox, settings)
    endOnSignals({ sandbox, serving, recording }, serveOptions.shutdownTimeout.default, printing.stderrLogger)
    console.log(`nacre listens on ${serving.url}`)
    if (hasConsole) console.log(`the console is at ${serving.url}/console`)
    if (serving.sandboxd !== undefined) console.log(describeSandboxd(serving.sandboxd))
  } catch (error) {
    await sandbox.destroy()
    throw error
  }
}

/** The token that requests must send, of the file or the variable that the flags name. */
function takeToken(
  { tokenFile, tokenEnv }: Options,
  check: (value: unknown, name: string) => string,
): string | undefined {
  if (tokenFile !== undefined)
    return check(flags.contentOf('--token-file', tokenFile).trim(), `the token in --token-file ${tokenFile}`)
  if (tokenEnv !== undefined)
    return check(flags.takeVariable('--token-env', tokenEnv), `the token in --token-env ${tokenEnv}`)
  return undefined
}

/** The options that `--stdio` excludes: those of listeners, and of who may call them. */
const OF_LISTENERS = {
  host: '--host',
  port: '--port',
  tokenFile: '--token-file',
  tokenEnv: '--token-env',
  allowOrigin: '--allow-origin',
  console: '--console',
  forwardPorts: '--forward-ports',
  sandboxd: '--sandboxd',
} as const

function refuseAddress(options: Pick<Options, keyof typeof OF_LISTENERS>): void {
  const given = (Object.keys(OF_LISTENERS) as (keyof typeof OF_LISTENERS)[]).filter(
    (name) => options[name] !== undefined,
  )
  if (given.length === 0) return
  const flags = given.map((name) => OF_LISTENERS[name]).join(' and ')
  throw new OptionError(
    'INVALID_OPTION',
    `--stdio and ${flags} exclude each other: with --stdio nothing listens, and only the program that starts it can call`,
  )
}

/** `--copy-on-write`, with the name of the workspace or without one. */
function workspaceOf(given: true | string | undefined, undoSteps?: number): SandboxOptions['workspace'] {
  if (given !== undefined) return { mode: 'copy-on-write', id: given === true ? undefined : given, undoSteps }
  if (undoSteps !== undefined) throw new OptionError('INVALID_OPTION', '--undo-steps needs --copy-on-write')
  return undefined
}

/** The options of sandboxd. Throws OptionError when they are given without it. */
function sandboxdOptions(options: Options): SandboxdOptions | undefined {
  const { sandboxd, grpcPort, restPort, root, sandboxdHost, metadataPrefix } = options
  if (sandboxd) return { grpcPort, restPort, root, host: sandboxdHost, metadataPrefix }
  const given = { grpcPort, restPort, root, sandboxdHost, metadataPrefix }
  if (Object.values(given).every((value) => value === undefined)) return undefined
  throw new OptionError(
    'INVALID_OPTION',
    '--grpc-port, --rest-port, --root, --sandboxd-host and --metadata-prefix need --sandboxd',
  )
}

function describeSandboxd({ host, grpcPort, restPort, root }: ServingSandboxd): string {
  const shown = host.includes(':') ? `[${host}]` : host
  return `sandboxd listens on ${shown}:${grpcPort} (gRPC) and http://${shown}:${restPort}, with the root ${root}`
}
