/** `nacre help <verb>`. */
import type { Command } from 'commander'

/** The words without a `help` before the name of no verb. Commander would print the whole help, and not refuse the name. */
export function helpWordsOf({ commands }: Command, words: string[]): string[] {
  const [first, ...others] = words
  const named = (name: string | undefined) =>
    commands.find((command) => command.name() === name || command.aliases().includes(String(name)))
  if (first === undefined || commands.length === 0) return words
  if (first === 'help') return others.length === 0 || named(others[0]) !== undefined ? words : others
  const verb = named(first)
  return verb === undefined ? words : [first, ...helpWordsOf(verb, others)]
}
