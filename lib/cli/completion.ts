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
    .description('print a completion script for a shell')
    .addArgument(new Argument('<shell>', 'the shell to complete in').choices(SHELLS))
    .action(async (shell: Shell) => {
      const { completionScript } = await import('./completion/script.js')
      await write(process.stdout, completionScript(shell, program))
    })
  withExamples(completion, [
    ['source <(nacre completion bash)', 'add this to ~/.bashrc'],
    ['source <(nacre completion zsh)', 'add this to ~/.zshrc, after compinit'],
    ['nacre completion fish | source', 'add this to ~/.config/fish/config.fish'],
  ])
}
