/**
 * Examples below the help of a verb.
 */
import type { Command } from 'commander'

/** Adds command lines, each with its explanation. */
export function withExamples(command: Command, examples: Array<[line: string, meaning: string]>): void {
  const width = Math.max(...examples.map(([line]) => line.length))
  const lines = examples.map(([line, meaning]) => `  ${line.padEnd(width)}  # ${meaning}`)
  command.addHelpText('after', `\nExamples:\n${lines.join('\n')}`)
}
