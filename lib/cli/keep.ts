/** `nacre keep`: the sandboxes with a name, like those of `nacre serve --keep`. */
import type { Command } from 'commander'
import type { KeptOptions } from '../calls/index.js'
import { withExamples } from './examples.js'
import { printTable } from './table.js'
import { printJson } from './terminal.js'
import { stateDirOption } from './values.js'

export function addKeep(program: Command): void {
  const group = program.command('keep').description('manage sandboxes that were kept under a name')
  group
    .command('ls')
    .alias('list')
    .description('list sandboxes')
    .addOption(stateDirOption())
    .option('--json', 'print JSON')
    .action(async ({ json = false, ...place }: KeptOptions & { json?: boolean }) => {
      const found = await (await kept()).listKept(place)
      if (json) return printJson(found)
      const cells = found.map(({ name, inUse, usedAt }) => [
        ...[name, usedAt.toISOString(), inUse ? 'in use' : 'kept'],
      ])
      await printTable(['NAME', 'LAST USE', 'STATE'], cells)
    })
  group
    .command('rm')
    .description('remove sandboxes, with the state of their sessions')
    .argument('<name...>')
    .addOption(stateDirOption())
    .action(async (names: string[], place: KeptOptions) => {
      const sandboxes = await kept()
      for (const name of names) await sandboxes.deleteKept(name, place)
    })
  withExamples(group, [
    ['nacre keep ls', 'prints the name and the last use of each'],
    ['nacre keep rm agent-7', 'removes what was kept; the next sandbox of this name is new'],
  ])
}

async function kept() {
  return (await import('../backends/native/sandbox.js')).Sandbox
}
