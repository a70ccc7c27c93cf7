/**
 * `nacre try`: runs a command or a shell over a directory, shows what it changed, and asks what shall become of it.
 */
import path from 'node:path'
import { type Command, Option } from 'commander'
import { isCode, OptionError } from '../base/errors.js'
import type { Change, Sandbox } from '../public/index.js'
import type { Preset } from '../schema/isolation-rules.js'
import { withExamples } from './examples.js'
import { run } from './exec.js'
import { runInTerminal } from './exec-terminal.js'
import { choose, colorsOf, isInteractive, note, printable, printLine } from './terminal.js'
import { commandOf, existingDirectory, isolationOption, variable } from './values.js'
import type { Finish } from './verb.js'

interface Options {
  cwd: string
  env?: Record<string, string>
  isolation?: Preset
  then?: 'commit' | 'discard'
}

export function addTry(program: Command, finish: Finish): void {
  const verb = program
    .command('try')
    .description(
      'run a command or a shell over a directory, show what it changed, and ask what becomes of it',
    )
    .argument('[command...]', 'as for `nacre exec`; without one, a shell')
    .option('--cwd <directory>', 'the directory (default: the present one)', existingDirectory, '.')
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .addOption(isolationOption())
    .addOption(new Option('--then <what>', 'do not ask').choices(['commit', 'discard']))
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      finish(await tryOut(words.length === 0 ? undefined : commandOf(words, verb), options))
    })
  withExamples(verb, [
    ['nacre try', 'opens a shell whose changes are not real yet'],
    ["nacre try 'rm -rf build && make'", 'runs a command, lists its changes, and asks'],
    ['nacre try --then discard -- npm update', 'only shows what the command would change'],
    ['nacre try --isolation workspace -- ./agent', 'also keeps the program from writing elsewhere'],
  ])
}

/** The exit code of the command. */
async function tryOut(command: string | string[] | undefined, options: Options): Promise<number> {
  const { cwd, env, isolation, then } = options
  const isTerminal = isInteractive() && process.stdout.isTTY === true
  if (!isTerminal && (command === undefined || then === undefined)) {
    const lacks = command === undefined ? 'name a command' : 'add --then commit or --then discard'
    throw new OptionError('INVALID_OPTION', `nacre try has no terminal to ask: ${lacks}`)
  }
  const { Sandbox } = await import('../backends/native/sandbox.js')
  await using sandbox = new Sandbox({ cwd: path.resolve(cwd), env, isolation, workspace: 'copy-on-write' })
  const exitCode = await (isTerminal ? runInTerminal : run)(sandbox, command ?? ['bash'], {})
  const changes = await sandbox.workspace.changes()
  if (changes.length === 0) {
    note('nothing has changed')
    return exitCode
  }
  await printChanges(changes)
  if (then === undefined) await ask(sandbox)
  else if (then === 'commit') await commit(sandbox)
  return exitCode
}

/** Asks until the changes are committed or discarded. */
async function ask(sandbox: Sandbox): Promise<void> {
  for (;;) {
    const choice = await choose({ c: 'commit', d: 'show the diff', x: 'discard' })
    if (choice === 'x' || choice === undefined) return note('discarded')
    if (choice === 'd') await printDiff(await sandbox.workspace.diff())
    if (choice === 'c' && (await commitOrSayWhy(sandbox))) return
  }
}

async function commitOrSayWhy(sandbox: Sandbox): Promise<boolean> {
  try {
    await commit(sandbox)
    return true
  } catch (error) {
    if (!isCode(error, 'WORKSPACE_CONFLICT')) throw error
    note(printable(error.message))
    if ((await choose({ o: 'overwrite them', b: 'go back' })) !== 'o') return false
    await commit(sandbox, true)
    return true
  }
}

async function commit(sandbox: Sandbox, force = false): Promise<void> {
  const { applied, skipped } = await sandbox.workspace.commit({ force })
  for (const { path, reason } of skipped) note(`skipped ${printable(path)}: ${reason}`)
  note(`committed ${applied === 1 ? '1 change' : `${applied} changes`}`)
}

/** One line for each change, in the colours of git. */
export async function printChanges(changes: Change[]): Promise<void> {
  const colors = colorsOf(process.stdout)
  const paint = {
    created: colors.green,
    modified: colors.yellow,
    replaced: colors.yellow,
    metadata: colors.yellow,
    deleted: colors.red,
  }
  for (const { type, path, kind } of changes) {
    const name = kind === 'directory' ? `${path}/` : path
    await printLine(paint[type](`${type.padEnd(8)} ${printable(name)}`))
  }
}

/** A patch in the colours of git. */
export async function printDiff(patch: Uint8Array): Promise<void> {
  const { bold, cyan, green, red } = colorsOf(process.stdout)
  const paints: [string, (line: string) => string][] = [
    ['diff --git ', bold],
    ['@@', cyan],
    ['+', green],
    ['-', red],
  ]
  // A program wrote the content, which must not drive the terminal. Tabs are harmless.
  const shown = (line: string) => line.split('\t').map(printable).join('\t')
  for (const line of new TextDecoder().decode(patch).trimEnd().split('\n')) {
    const [, paint = (text: string) => text] = paints.find(([start]) => line.startsWith(start)) ?? []
    await printLine(paint(shown(line)))
  }
}
