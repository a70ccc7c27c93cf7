/**
 * The script for a shell.
 */
import type { Command } from 'commander'
import { bashScript } from './bash.js'
import { fishScript } from './fish.js'
import { shapeOf, type VerbShape } from './shape.js'
import { zshScript } from './zsh.js'

const WRITERS: Record<'bash' | 'zsh' | 'fish', (program: VerbShape) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export function completionScript(shell: keyof typeof WRITERS, program: Command): string {
  return WRITERS[shell](shapeOf(program))
}
