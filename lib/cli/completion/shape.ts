/**
 * The verbs and options of the command line as data, read from commander's own definitions. So a new option is
 * completed without a change here.
 */
import type { Argument, Command, Option } from 'commander'

/** How a value is completed. `command` is the start of another command line, `text` has no completion. */
export type Value = 'directory' | 'file' | 'command' | 'text' | { choices: readonly string[] }

export interface OptionShape {
  /** With their dashes, like `-f` and `--follow`. */
  flags: string[]
  description: string
  /** Undefined for an option without a value. */
  value: Value | undefined
}

export interface VerbShape {
  /** From the program on, like `nacre job logs`. */
  path: string
  name: string
  aliases: string[]
  description: string
  verbs: VerbShape[]
  options: OptionShape[]
  operands: Array<{ name: string; value: Value }>
}

export function shapeOf(program: Command): VerbShape {
  return shapeBelow(program, '', [])
}

function shapeBelow(command: Command, parent: string, siblings: string[]): VerbShape {
  const help = command.createHelp()
  const name = command.name()
  const path = `${parent} ${name}`.trimStart()
  const verbs = help.visibleCommands(command)
  const names = verbs.map((verb) => verb.name())
  return {
    path,
    name,
    aliases: command.aliases(),
    description: command.description(),
    verbs: verbs.map((verb) => shapeBelow(verb, path, names)),
    options: help.visibleOptions(command).map(optionShape),
    operands: command.registeredArguments.map((argument) => ({
      name: argument.name(),
      // `help [command]` takes a verb.
      value:
        name === 'help'
          ? { choices: siblings.filter((verb) => verb !== name) }
          : valueKind(argument.name(), argument),
    })),
  }
}

/** A verb and all verbs below it. */
export function everyVerb(verb: VerbShape): VerbShape[] {
  return [verb, ...verb.verbs.flatMap(everyVerb)]
}

function optionShape(option: Option): OptionShape {
  const { short, long, description, required, optional, flags } = option
  const name = /[<[]([\w-]+)/.exec(flags)?.[1] ?? ''
  return {
    flags: [short, long].filter((flag) => flag !== undefined),
    description,
    value: required || optional ? valueKind(name, option) : undefined,
  }
}

/** By the choices of a value, or else by the name that the help shows, like `<directory>`. */
function valueKind(name: string, { argChoices }: Pick<Argument | Option, 'argChoices'>): Value {
  if (argChoices !== undefined) return { choices: argChoices }
  if (name === 'directory' || name === 'file' || name === 'command') return name
  return 'text'
}
