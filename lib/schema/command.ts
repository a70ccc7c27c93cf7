/**
 * Reader for commands: shell text or an argument list, and how a command is shown in results.
 */
import { OptionError } from '../base/errors.js'
import { describe } from './read.js'

/** A checked command: shell text, or arguments that no shell parses. */
export type CheckedCommand = { text: string; argv?: never } | { argv: string[]; text?: never }

/** Arguments made of these characters mean the same in bash with and without quotes. */
const PLAIN = /^[A-Za-z0-9_@%+=:,./-]+$/

/** Reads text that is not blank, or a list whose program is not empty. Neither may contain NUL. */
export function readCommand(value: unknown): CheckedCommand {
  if (typeof value === 'string') return { text: shellText(value) }
  if (Array.isArray(value)) return { argv: argumentList(Array.from<unknown>(value)) }
  throw invalid(`must be shell text or a list of arguments, not ${describe(value)}`)
}

function shellText(text: string): string {
  if (text.trim() === '') throw invalid('must not be blank')
  if (text.includes('\0')) throw invalid('must not contain a NUL character')
  return text
}

function argumentList(argv: unknown[]): string[] {
  if (argv.length === 0) throw invalid('must have at least one argument, the program')
  for (const [index, argument] of argv.entries()) {
    if (typeof argument !== 'string')
      throw invalid(`must have strings only; [${index}] is ${describe(argument)}`)
    if (argument.includes('\0')) throw invalid(`must not contain a NUL character; [${index}] does`)
  }
  if (argv[0] === '') throw invalid('must name a program; [0] is empty')
  return argv as string[]
}

/** The command as one line of text. An argument list is quoted so that bash would read the same arguments. */
export function showCommand(command: CheckedCommand): string {
  if (command.text !== undefined) return command.text
  return command.argv
    .map((item) => (PLAIN.test(item) ? item : `'${item.replaceAll("'", "'\\''")}'`))
    .join(' ')
}

function invalid(rule: string): OptionError {
  return new OptionError('INVALID_COMMAND', `command ${rule}`)
}
