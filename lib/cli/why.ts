/** `nacre why`: what rules say of a path or a host, and what would allow it. */
import type { Command } from 'commander'
import type { DenialFix } from '../calls/index.js'
import { withExamples } from './examples.js'
import { addNetworkOptions, type IsolationFlags, isolationOf } from './network.js'
import { printable, printJson, printLine } from './terminal.js'
import { directoryOption, isolationOption } from './values.js'
import type { Finish } from './verb.js'

interface Options extends IsolationFlags {
  cwd: string
  program?: string
  json?: true
}

/** The exit code where a rule refuses something. */
const REFUSED = 1

export function addWhy(program: Command, finish: Finish): void {
  const verb = program
    .command('why')
    .description('print which rule of isolation refuses a path or a host, and what would allow it')
    .argument('<target>', "a path, or a host and a port like 'example.com:443'")
    .addOption(directoryOption('the directory of the sandbox'))
    .addOption(isolationOption())
    .option('--program <name>', 'the program that wants to connect, of network.programs in the rules')
    .option('--json', 'print what is refused as JSON')
  addNetworkOptions(verb).action(async (target: string, options: Options) => {
    const { Sandbox } = await import('../backends/native/sandbox.js')
    await using sandbox = new Sandbox({ cwd: options.cwd, ...isolationOf(options) })
    await using session = await sandbox.createSession()
    const denials = await session.why(
      target,
      options.program === undefined ? {} : { program: options.program },
    )
    if (options.json) await printJson(denials)
    else if (denials.length === 0) await printLine(`${printable(target)}: no rule refuses it`)
    else
      for (const { kind, rule, fix } of denials) {
        const remedy = fix === undefined ? '' : `; to allow it: ${changeOf(fix)}`
        await printLine(printable(`${target}: ${kind} is refused by ${rule}${remedy}`))
      }
    finish(denials.length === 0 ? 0 : REFUSED)
  })
  withExamples(verb, [
    ['nacre why --isolation workspace ~/.ssh/id_ed25519', 'says that it is hidden'],
    ['nacre why --isolation-file rules.json registry.npmjs.org:443', 'judges by the rules of a file'],
  ])
}

function changeOf({ option, add, remove }: DenialFix): string {
  return add === undefined ? `remove '${remove}' from ${option}` : `add '${add}' to ${option}`
}
