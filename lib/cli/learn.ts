/**
 * `nacre learn`: runs a command with everything allowed, prints the smallest rules under which it passes, and proves them by a
 * second run.
 */
import { homedir } from 'node:os'
import type { Command } from 'commander'
import { absolute } from '../base/working-directory.js'
import type { Denial, IsolationRules } from '../calls/index.js'
import { withExamples } from './examples.js'
import { exitCodeOfEnd } from './failure.js'
import { type Learned, learnedFrom, rulesOf, typeScriptOf } from './learned.js'
import { onSignals } from './signals.js'
import { NOBODY_READS, note, printable, printLine, write } from './terminal.js'
import { commandOf, directoryOption, variable } from './values.js'
import type { Finish } from './verb.js'

interface Options {
  cwd: string
  env?: Record<string, string>
  typescript?: true
  once?: true
}

/** The exit code if the command does not pass under the rules. */
const NOT_PROVEN = 1
/** Remarks about one kind of thing. */
const MOST_NOTES = 20

export function addLearn(program: Command, finish: Finish): void {
  const verb = program
    .command('learn')
    .description(
      'run a command with everything allowed, and print the smallest isolation under which it passes',
    )
    .argument('<command...>', 'as for `nacre exec`; its output goes to standard error')
    .addOption(directoryOption('the directory of the project'))
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .option('--typescript', 'print TypeScript instead of the JSON of --isolation-file')
    .option('--once', 'do not prove the rules by a second run')
    .passThroughOptions()
    .action(async (words: string[], options: Options, verb: Command) => {
      finish(await learn(commandOf(words, verb), options))
    })
  withExamples(verb, [
    ['nacre learn -- npm test > rules.json', 'learns the rules, and proves them by running the tests again'],
    ['nacre exec --isolation-file rules.json -- npm test', 'runs the tests under these rules'],
    ["nacre learn --once 'make install'", 'runs the command once'],
  ])
}

async function learn(command: string | string[], options: Options): Promise<number> {
  const cwd = absolute(options.cwd)
  const first = await runUnder(command, { ...options, cwd }, { ...rulesOf({}), learn: true })
  if (first === undefined) return NOBODY_READS
  const learned = learnedFrom(first.denials, { cwd, home: homedir() })
  explain(learned)
  const rules = rulesOf(learned)
  await printLine(options.typescript ? typeScriptOf(rules, learned) : JSON.stringify(rules, undefined, 2))
  if (first.code !== 0) note(`the command has failed with everything allowed: exit code ${first.code}`)
  if (options.once || first.wasAsked) return first.code
  note('the same command under these rules:')
  const second = await runUnder(command, { ...options, cwd }, { ...rules, explain: true })
  if (second === undefined) return NOBODY_READS
  if (second.code === first.code) {
    note(`proven: exit code ${second.code} under these rules, too`)
    // Programs look for files that are not there, so reads say little.
    remark('refused all the same', refusals(second.denials.filter(({ kind }) => kind !== 'read')))
    return second.code
  }
  note(`not proven: exit code ${second.code} under these rules, and ${first.code} without them`)
  remark('refused', refusals(second.denials))
  if (second.denials.length === 0) note('no rule has refused anything: the command may not work twice')
  return NOT_PROVEN
}

interface End {
  code: number
  /** A signal has asked this program to exit. */
  wasAsked: boolean
  denials: Denial[]
}

/** Runs the command, with its output on standard error. Undefined when nothing reads that any more. */
async function runUnder(
  command: string | string[],
  { cwd, env }: Options,
  isolation: IsolationRules,
): Promise<End | undefined> {
  const { Sandbox } = await import('../backends/native/sandbox.js')
  await using sandbox = new Sandbox({ cwd, env, isolation })
  const stream = sandbox.execStream(command, { encoding: 'buffer' })
  let asked: NodeJS.Signals | undefined
  const ignore = onSignals((signal) => {
    void stream.kill(asked === undefined ? 'SIGTERM' : 'SIGKILL')
    asked ??= signal
  })
  try {
    for await (const event of stream) {
      if (event.type !== 'stdout' && event.type !== 'stderr') continue
      if (!(await write(process.stderr, event.data))) return undefined
    }
    const { exitCode, signal, denials } = await stream.result
    return { code: exitCodeOfEnd(exitCode, asked ?? signal), wasAsked: asked !== undefined, denials }
  } finally {
    ignore()
  }
}

/** Says on standard error what the rules are for, and what no rule can allow. */
function explain({ read, write, hosts, secrets, closed }: Learned): void {
  const counted = ({ path, files }: { path: string; files: number }) =>
    `${path} (${files} ${files === 1 ? 'file' : 'files'})`
  remark('read', read.map(counted))
  remark('write', write.map(counted))
  remark('connect', hosts)
  remark('stays hidden', secrets)
  remark('no rule allows', closed)
}

const refusals = (denials: Denial[]) =>
  denials.map(({ kind, target, rule }) => `${kind} ${target} by ${rule}`)

function remark(what: string, items: string[]): void {
  const unique = [...new Set(items)]
  for (const item of unique.slice(0, MOST_NOTES)) note(`${what}: ${printable(item)}`)
  if (unique.length > MOST_NOTES) note(`${what}: ${unique.length - MOST_NOTES} more`)
}
