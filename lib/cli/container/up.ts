/** `nacre up`: makes the container of a project ready, so that later commands start at once. */
import type { Command } from 'commander'
import { withExamples } from '../examples.js'
import { note, printLine } from '../terminal.js'
import { existingDirectory } from '../values.js'
import type { Verb } from '../verb.js'
import { addContainerOptions, type ContainerFlags, openContainer } from './options.js'

export const addUp: Verb = (program: Command) => {
  const verb = program
    .command('up')
    .description('make the container of a project ready: pull its image, create it and set it up')
    .option('--cwd <directory>', 'a directory of the project (default: the present one)', existingDirectory)
  addContainerOptions(verb).action(async (flags: ContainerFlags & { cwd?: string }) => {
    const sandbox = await openContainer(flags, { cwd: flags.cwd })
    const { container } = sandbox
    await sandbox.destroy()
    note(`the container of ${container?.engine} is ready, and stops when nothing runs in it`)
    await printLine(container?.name ?? '')
  })
  withExamples(verb, [
    ['nacre up', 'pulls node:22 if it is missing, and prints the name of the container'],
    ["nacre up --setup 'apt-get update && apt-get install -y jq'", 'installs a program in it, once'],
    ['nacre up --fresh', 'replaces the container'],
  ])
}
