/**
 * `nacre completion`: prints a script that completes verbs, options and values in a shell.
 */
import { Argument, type Command } from 'commander'
import { withExamples } from './examples.js'
import { write } from './terminal.js'

const SHELLS = ['bash', 'zsh', 'fish'] as const
type Shell = (typeof SHELLS)[number]

export function addCompletion(program: Command): void {
  const completion = program
    .command('completion')
    .description('print a script that completes nacre in a shell')
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(SHELLS))
    .action(async (shell: Shell) => {
      const { completionScript } = await import('./completion/script.js')
      await write(process.stdout, completionScript(shell, program))
    })
  withExamples(completion, [
    ['source <(nacre completion bash)', 'in ~/.bashrc'],
    ['source <(nacre completion zsh)', 'in ~/.zshrc, after compinit'],
    ['nacre completion fish | source', 'in ~/.config/fish/config.fish'],
  ])
}
