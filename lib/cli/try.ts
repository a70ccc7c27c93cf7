/**
 * `nacre try`: runs a command or a shell over a directory, shows what it changed, and asks what becomes of it. The workspace
 * has a name, so that nothing is lost with this program.
 */
import { randomBytes } from 'node:crypto'
import { type Command, Option } from 'commander'
import { invalidOption, isCode } from '../base/errors.js'
import { absolute } from '../base/working-directory.js'
import type { Sandbox } from '../calls/index.js'
import { commitChanges, printChanges, printDiff } from './changes.js'
import { withExamples } from './examples.js'
import { run } from './exec.js'
import { runInTerminal } from './exec-terminal.js'
import { addNetworkOptions, type IsolationFlags, isolationOf } from './network.js'
import { printGroups, reviewChanges } from './review.js'
import { onSignals } from './signals.js'
import { choose, isInteractive, note, printable } from './terminal.js'
import { commandOf, directoryOption, isolationOption, variable } from './values.js'
import type { Finish } from './verb.js'
import { directoryOf } from './workspace.js'

/** What becomes of the changes. */
type Fate = 'commit' | 'discard' | 'keep'

interface Options extends IsolationFlags {
  cwd: string
  env?: Record<string, string>
  resume?: string
  then?: Fate
}

export function addTry(program: Command, finish: Finish): void {
  const verb = program
    .command('try')
    .description(
      'run a command or a shell over a directory, show what it changed, and ask what becomes of it',
    )
    .argument('[command...]', 'as for `nacre exec`; without one, a shell')
    .addOption(directoryOption('the directory'))
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .addOption(isolationOption())
    .option('--resume <id>', 'go on with a workspace that was kept')
    .addOption(new Option('--then <what>', 'do not ask').choices(['commit', 'discard', 'keep']))
  addNetworkOptions(verb)
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      finish(await tryOut(words.length === 0 ? undefined : commandOf(words, verb), options))
    })
  withExamples(verb, [
    ['nacre try', 'opens a shell whose changes are not real yet'],
    ["nacre try 'rm -rf build && make'", 'runs a command, lists its changes, and asks'],
    ['nacre try --then discard -- npm update', 'only shows what the command would change'],
    ['nacre try --isolation workspace -- ./agent', 'also keeps the program from writing elsewhere'],
    ['nacre try --resume try-x7f2', 'goes on where a kept workspace ended'],
  ])
}

/** The exit code of the command. */
async function tryOut(command: string | string[] | undefined, options: Options): Promise<number> {
  const { env, then } = options
  const rules = isolationOf(options)
  const isTerminal = isInteractive() && process.stdout.isTTY === true
  if (!isTerminal && (command === undefined || then === undefined)) {
    const lacks = command === undefined ? 'name a command' : 'add --then commit, discard or keep'
    throw invalidOption(`nacre try has no terminal to ask: ${lacks}`)
  }
  const id = options.resume ?? `try-${randomBytes(4).toString('hex')}`
  const cwd = options.resume === undefined ? absolute(options.cwd) : await directoryOf(id)
  const { Sandbox } = await import('../backends/native/sandbox.js')
  const sandbox = new Sandbox({ cwd, env, ...rules, workspace: { mode: 'copy-on-write', path: cwd, id } })
  let isInterrupted = false
  const ignore = onSignals(() => {
    isInterrupted = true
  })
  const kept = `kept as ${id}: see nacre try --resume ${id}, and nacre workspace --help`
  let fate: Fate = 'keep'
  try {
    const exitCode = await (isTerminal ? runInTerminal : run)(sandbox, command ?? ['bash'], {})
    const changes = await sandbox.workspace.changes()
    if (changes.length === 0) {
      note('nothing has changed')
      fate = 'discard'
      return exitCode
    }
    await printChanges(changes)
    ignore()
    // After an interrupt, nothing is asked or committed.
    if (!isInterrupted) fate = await decide(sandbox, id, then)
    if (fate === 'keep') note(kept)
    return exitCode
  } catch (error) {
    // Without a list, the error that came first still counts.
    const found = await sandbox.workspace.list().catch(() => [])
    if (found.some((one) => one.id === id)) note(kept)
    throw error
  } finally {
    ignore()
    await sandbox.destroy()
    if (fate !== 'keep') await sandbox.workspace.delete()
  }
}

/** Asks, unless that is decided, and commits if that is wanted. */
async function decide(sandbox: Sandbox, id: string, then: Fate | undefined): Promise<Fate> {
  if (then === 'commit') await commitChanges(sandbox, {})
  if (then !== undefined) return then
  await printGroups(await sandbox.workspace.review({ maxBytes: 1 }))
  for (;;) {
    const choice = await choose({
      ...{ c: 'commit', d: 'show the diff', r: 'review hunk by hunk' },
      ...{ k: `keep as ${id}`, x: 'discard' },
    })
    if (choice === 'x') return 'discard'
    if (choice === 'k' || choice === undefined) return 'keep'
    try {
      if (choice === 'd') await printDiff(await sandbox.workspace.diff())
      if (choice === 'r') {
        await reviewChanges(sandbox)
        const left = await sandbox.workspace.changes()
        if (left.length === 0) return 'commit'
        await printChanges(left)
      }
      if (choice === 'c' && (await commitOrGoBack(sandbox))) return 'commit'
    } catch (error) {
      // Another choice may work.
      note(printable((error as Error).message))
    }
  }
}

async function commitOrGoBack(sandbox: Sandbox): Promise<boolean> {
  try {
    await commitChanges(sandbox, {})
  } catch (error) {
    if (!isCode(error, 'WORKSPACE_CONFLICT')) throw error
    note(printable(error.message))
    if ((await choose({ o: 'overwrite them', b: 'go back' })) !== 'o') return false
    await commitChanges(sandbox, { force: true })
  }
  return true
}
