/** The options of `nacre-mcp`, and of `nacre mcp`. */
import { type Command, flags, network, printing, withExamples } from 'nacre/internal/cli'
import { CLIENTS, type Client, configFor } from './clients.js'
import type { Flags } from './settings.js'

export function defineServer(command: Command): Command {
  const isolation = flags.isolationOption()
  command
    .description(
      'serve a shell to MCP clients: to one over stdio, or with --port over HTTP; everything but jobs ends with the server',
    )
    .option(
      '--port <number>',
      'serve Streamable HTTP at /mcp on this port; 0 selects a free port',
      flags.wholeNumber,
    )
    .option('--host <address>', 'the address to listen on (default: 127.0.0.1)')
    .option(
      '--token-file <file>',
      'a file with the token that requests must send, at least 16 characters (default: a new token, printed once)',
    )
    .option('--allow-origin <origins...>', 'origins of web pages that may send requests')
    .option(
      '--cwd <directory>',
      'the directory of new sessions (default: the current one)',
      flags.existingDirectory,
    )
    .addOption(isolation.choices([...(isolation.argChoices ?? []), 'none']).default('workspace+network'))
    .option('--write <directories...>', 'more directories that commands may write', directories)
    .option(
      '--ask',
      'commands have no network, but each host that they connect to is a question in the console',
    )
  network
    .addNetworkOptions(command)
    .addOption(
      command
        .createOption(
          '--container [engine]',
          "run commands in a Linux container of docker, podman or container, Apple's, which is the default where there is no Linux",
        )
        .choices(['auto', 'docker', 'podman', 'container'])
        .preset('auto'),
    )
    .option('--image <image>', 'the image of the container (default: node:22)')
    .option('--runtime <name>', 'its OCI runtime, like runsc (default: that of the engine)')
    .option('--mount <paths...>', 'what else the container has, to read only')
    .option('--own <directories...>', 'directories that the container has for itself, like node_modules')
    .option('--root', 'in the container, commands run as root')
    .option('--setup <command>', 'what root runs in the container once, when it is new')
    .option(
      '--vm',
      'run commands in a virtual machine of QEMU, with a kernel of its own and no network but --allow',
    )
    .option('--kernel <file>', 'its kernel (default: that of this machine)')
    .option('--emulate', 'emulate its processor, which is slow, and needs no /dev/kvm')
    .option('--copy-on-write', 'change files in a private layer, which the tool workspace shows')
    .option(
      '--keep <name>',
      'keep the sessions, and changes of --copy-on-write, under a name; the next server with this name goes on with them',
    )
    .addOption(flags.stateDirOption())
    .option('--allow-commit', 'let the tool workspace make changes real')
    .option('--env <names...>', 'variables to pass although their names look like secrets')
    .option('--redact-file <file>', 'values that replies and recordings must never show, one per line')
    .option(
      '--console [port]',
      'also serve a page on 127.0.0.1 that shows what runs, with its address on standard error (default: a free port)',
      flags.wholeNumber,
    )
    .option('--record <directory>', 'record what sessions and processes show, as asciicast v3')
    .option(
      '--record-limit <size>',
      'bytes of all recordings; the oldest go first (default: 256MB)',
      flags.byteSize,
    )
    .option('--timeout <time>', 'when a command is killed that names no time (default: 10m)', flags.duration)
    .option('--yield-after <time>', 'when a reply has the output so far (default: 15s)', flags.duration)
    .option(
      '--max-wait <time>',
      'the longest time until a reply, whatever the model asks (default: 50s)',
      flags.duration,
    )
    .option('--max-tokens <number>', 'the tokens of a reply, at most 9000 (default: 4000)', flags.wholeNumber)
    .option('--tools <names>', 'the tools to offer, like bash,wait,kill (default: all)', names)
    .option('--max-sessions <number>', 'how many sessions may be open (default: 32)', flags.wholeNumber)
    .option(
      '--max-runs <number>',
      'how many commands may run at the same time (default: 64)',
      flags.wholeNumber,
    )
    .option('--idle <time>', 'over HTTP: when a session ends that is not used (default: 4h)', flags.duration)
    .addOption(
      command
        .createOption(
          '--print-config <client>',
          'print the entry for a client with the other options, and exit',
        )
        .choices(CLIENTS),
    )
    .action(run)
  withExamples(command, [
    ['npx -y @nacre/mcp --print-config claude', 'prints what Claude Code needs to start the server'],
    ['npx -y @nacre/mcp --isolation workspace', 'commands have no network'],
    [
      'npx -y @nacre/mcp --secret GITHUB_TOKEN=github.com,api.github.com',
      'git and gh use the token, which no command sees, and reach nothing else',
    ],
    ['npx -y @nacre/mcp --ask --console', 'you decide in a page which hosts commands may connect to'],
    ['npx -y @nacre/mcp --container --own node_modules', 'commands run in a container of the project'],
    ['npx -y @nacre/mcp --copy-on-write', 'changes of files become real only when you commit them'],
    ['npx -y @nacre/mcp --port 4748', 'serves several clients over HTTP; prints a token'],
  ])
  return command
}

async function run(
  { printConfig, ...flags }: Flags & { printConfig?: Client },
  command: Command,
): Promise<void> {
  const { readSettings } = await import('./settings.js')
  // The default is not to replace the preset of a file.
  const isDefault = command.getOptionValueSource('isolation') === 'default'
  if (flags.isolationFile !== undefined && isDefault) delete flags.isolation
  const settings = readSettings(flags)
  if (printConfig !== undefined) {
    await printing.printLine(configFor(printConfig, process.argv.slice(command.parent === null ? 2 : 3)))
    return
  }
  const { serve } = await import('./serve.js')
  await serve(settings)
}

function names(text: string): string[] {
  return text.split(/[\s,]+/).filter((name) => name !== '')
}

function directories(text: string, others: string[] = []): string[] {
  return [...others, flags.existingDirectory(text)]
}
