/**
 * `nacre exec`: runs one command, prints its output live and exits with its code. When a signal asks this program to
 * exit, the command and everything it has started end first.
 */
import type { Command } from 'commander'
import { invalidOption } from '../base/errors.js'
import { ownOnly } from '../base/own.js'
import type { AnySandbox, Encoding, ExecResult, SandboxError } from '../calls/index.js'
import {
  addContainerOptions,
  addMachineOptions,
  type MachineFlags,
  openContainer,
  refuseContainerOptions,
} from './container/options.js'
import { withExamples } from './examples.js'
import { runInTerminal, type TerminalRun } from './exec-terminal.js'
import { exitCodeOfEnd } from './failure.js'
import { addNetworkOptions, type IsolationFlags, isolationOf, machineNetworkOf } from './network.js'
import { type SessionOptions, sessionOf, useServer } from './remote/server.js'
import { onSignals, onSuspend } from './signals.js'
import { NOBODY_READS, printJson, write } from './terminal.js'
import { commandOf, duration, isolationOption, variable } from './values.js'
import type { Finish } from './verb.js'

interface Options extends MachineFlags, SessionOptions, IsolationFlags {
  container?: true
  cwd?: string
  env?: Record<string, string>
  timeout?: number
  grace?: number
  json?: boolean
  tty?: boolean
}

export function addExec(program: Command, finish: Finish): void {
  const verb = program
    .command('exec')
    .description('run a command: one word is shell text, several words are a program and its arguments')
    .argument('<command...>')
    .option('--cwd <directory>', 'run in this directory')
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .option('--timeout <time>', 'kill the command after this time, like 500ms, 10s, 2m or 1h', duration)
    .option('--grace <time>', 'time between SIGTERM and SIGKILL (default: 5s)', duration)
    .addOption(isolationOption())
    .option('--json', 'print the whole result as JSON when the command ends')
    .option('-t, --tty', 'run in a terminal, for editors and prompts')
    .option('--url <url>', 'run on this server, in the session of --session (default: default)')
    .option('--token-file <file>', 'a file with the token of the server (default: the token in $NACRE_TOKEN)')
    .option('--session <id>', 'the session on the server')
    .option('--container', 'run in a Linux container of the project, which the options below are for')
  addMachineOptions(addContainerOptions(addNetworkOptions(verb)))
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      finish(await exec(commandOf(words, verb), options))
    })
  withExamples(verb, [
    ["nacre exec 'ls *.ts | wc -l'", 'one word is shell text'],
    ["nacre exec -- printf '%s' '$HOME'", 'several words are not parsed by a shell'],
    ['nacre exec --tty bash', 'runs in a terminal'],
    ['nacre exec --cwd app --env CI=1 npm test', 'runs in a directory, with a variable'],
    ["nacre exec --timeout 30s --json 'make all'", 'prints the whole result as JSON'],
    ['nacre exec --isolation workspace -- npm test', 'allows writes only here; no secrets, no network'],
    ['nacre exec --url http://127.0.0.1:4747 pwd', 'runs in a session of a server'],
    ['nacre exec --container --image debian:13 -- make', 'runs in a Linux container of the project'],
    ['nacre exec --vm -- make', 'runs in a virtual machine with a kernel of its own'],
    ["nacre exec 'sort -n' < numbers", 'passes standard input to the command'],
  ])
}

async function exec(command: string | string[], options: Options): Promise<number> {
  const { env, grace, json, tty, container, vm, cwd, timeout } = options
  const network = vm && machineNetworkOf(options)
  const rules = isolationOf(options)
  if (json && tty) throw invalidOption('--json is not possible with --tty')
  if (container || vm) {
    const where = vm ? '--vm' : '--container'
    if (grace !== undefined) throw invalidOption(`--grace is not possible with ${where}`)
    if (rules.isolationFile !== undefined)
      throw invalidOption(`--isolation-file is not possible with ${where}: name a preset by --isolation`)
    await using sandbox = await openContainer(options, { cwd, env, isolation: rules.isolation, network })
    return await (tty ? runInTerminal : run)(sandbox, command, { timeout, json, isElsewhere: true })
  }
  refuseContainerOptions(options)
  if (options.url !== undefined) {
    const given = [
      grace !== undefined && '--grace',
      rules.isolation !== undefined && '--isolation',
      rules.isolationFile !== undefined && '--isolation-file',
    ].filter(Boolean)
    if (given.length > 0) {
      const are = given.length === 1 ? 'is' : 'are'
      throw invalidOption(`${given.join(' and ')} ${are} not possible with --url`)
    }
    return useServer(options, async (client) => {
      const session = await sessionOf(client, options)
      return (tty ? runInTerminal : run)(session, command, { cwd, env, timeout, json, isElsewhere: true })
    })
  }
  if ((options.tokenFile ?? options.session) !== undefined)
    throw invalidOption('--token-file and --session are for a server: add --url')
  const { Sandbox } = await import('../backends/native/sandbox.js')
  await using sandbox = new Sandbox({ env, forceKillAfterDelay: grace, ...rules })
  return await (tty ? runInTerminal : run)(sandbox, command, { cwd, timeout, json })
}

interface RunOptions extends TerminalRun {
  json?: boolean
  /** Whether its processes have ids of another machine. */
  isElsewhere?: boolean
}

/** Runs a command, prints its output, and resolves with its exit code. */
export async function run(
  sandbox: Pick<AnySandbox, 'execStream'>,
  command: string | string[],
  options: RunOptions,
): Promise<number> {
  const { cwd, env, timeout, json = false, isElsewhere = false } = ownOnly(options)
  let shell: number | undefined
  const stream = sandbox.execStream<Encoding>(command, {
    onStart({ pid }) {
      if (!isElsewhere) shell = pid
    },
    cwd,
    env,
    timeout,
    input: process.stdin,
    // Text has a mark where output is missing.
    encoding: json ? 'utf8' : 'buffer',
  })
  let asked: NodeJS.Signals | undefined
  // Always SIGTERM, since shells wait for their children before they act on SIGINT; SIGKILL the second time.
  const ignore = onSignals((signal) => {
    void stream.kill(asked === undefined ? 'SIGTERM' : 'SIGKILL')
    asked ??= signal
  })
  const unsuspend = onSuspend((signal) => signalGroup(shell, signal))
  try {
    if (!json) {
      for await (const event of stream) {
        if (event.type !== 'stdout' && event.type !== 'stderr') continue
        if (!(await write(process[event.type], event.data))) return NOBODY_READS
      }
    }
    const result = await whole(stream.result, json)
    const signal = asked ?? result.signal
    return exitCodeOfEnd(result.exitCode, signal)
  } finally {
    ignore()
    unsuspend()
  }
}

/** Stops or continues the command, which is in the process group of its shell. */
function signalGroup(shell: number | undefined, signal: NodeJS.Signals): void {
  try {
    if (shell !== undefined) process.kill(-shell, signal)
  } catch {
    // It has ended.
  }
}

/** The result. As JSON it is printed after an error too, as after a timeout. */
async function whole(promise: Promise<ExecResult<Encoding>>, json: boolean): Promise<ExecResult<Encoding>> {
  try {
    const result = await promise
    if (json) await printJson(result)
    return result
  } catch (error) {
    const { result } = error as Partial<SandboxError>
    if (json && result !== undefined) await printJson(result)
    throw error
  }
}
