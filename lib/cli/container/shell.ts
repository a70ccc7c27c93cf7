/** `nacre shell`: a shell in the container of a project. */
import type { Command } from 'commander'
import { invalidOption } from '../../base/errors.js'
import type { Preset } from '../../schema/isolation-rules.js'
import { withExamples } from '../examples.js'
import { runInTerminal } from '../exec-terminal.js'
import { existingDirectory, isolationOption, several, variable } from '../values.js'
import type { Verb } from '../verb.js'
import { addContainerOptions, addMachineOptions, type MachineFlags, openContainer } from './options.js'

interface Options extends MachineFlags {
  cwd?: string
  env?: Record<string, string>
  isolation?: Preset
  allow?: string[]
}

export const addShell: Verb = (program: Command, finish) => {
  const verb = program
    .command('shell')
    .description('open a shell in the container of a project, or in a virtual machine')
    .option('--cwd <directory>', 'start in this directory of the project', existingDirectory)
    .option('--env <name=value>', 'set a variable; can be repeated', variable)
    .addOption(isolationOption())
    .option('--allow <host:port>', 'with --vm: a host that it may reach; can be repeated', several)
  addMachineOptions(addContainerOptions(verb)).action(
    async ({ cwd, env, isolation, allow, ...flags }: Options) => {
      if (allow !== undefined && !flags.vm) throw invalidOption('--allow is for a virtual machine: add --vm')
      const network = allow && { allow }
      await using sandbox = await openContainer(flags, { cwd, env, isolation, network })
      finish(await runInTerminal(sandbox, ['bash'], {}))
    },
  )
  withExamples(verb, [
    ['nacre shell', 'opens bash in the container, which is started if need be'],
    ['nacre shell --root', 'the shell is that of root'],
    ['nacre shell --vm', 'opens bash under a kernel of its own, in a virtual machine of QEMU'],
    ['nacre shell --image debian:13', 'a container with another image is another one'],
  ])
}
