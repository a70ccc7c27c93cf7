/**
 * Readers for the values of options. A refused value is a usage error, which commander prints with the option's name.
 */
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { type Command, InvalidArgumentError, Option } from 'commander'
import { makeDirectories } from '../base/directories.js'
import { invalidOption, OptionError } from '../base/errors.js'
import { smallText } from '../base/small-file.js'
import { PRESETS } from '../schema/isolation-rules.js'

const UNITS: Record<string, number> = { ms: 1, s: 1000, m: 60_000, h: 3_600_000, d: 86_400_000 }

/** 10s, 500ms, 2m, 1h, 7d, or a plain number of seconds; as milliseconds. */
export function duration(text: string): number {
  const [, number = '', unit = 's'] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? []
  if (number !== '') return Number(number) * (UNITS[unit] ?? 1000)
  throw new InvalidArgumentError('It must be a time like 10s, 500ms, 2m, 1h or 7d.')
}

/** NAME=VALUE, once for each variable; the names are checked where they are used. */
export function variable(text: string, others: Record<string, string> = {}): Record<string, string> {
  const end = text.indexOf('=')
  if (end < 1) throw new InvalidArgumentError('It must be NAME=VALUE.')
  return { ...others, [text.slice(0, end)]: text.slice(end + 1) }
}

/** For an option that can be repeated. */
export function several(text: string, others: string[] = []): string[] {
  return [...others, text]
}

/** `--cwd`: a directory that exists. */
export function directoryOption(meaning: string): Option {
  return new Option('--cwd <directory>', meaning).argParser(existingDirectory).default('.', 'the present one')
}

/** `--state-dir`. */
export function stateDirOption(): Option {
  const meaning = 'where sandboxes are kept (default: nacre-<uid> in the temporary directory)'
  return new Option('--state-dir <directory>', meaning)
}

/** `--isolation`: one of the presets. */
export function isolationOption(): Option {
  return new Option('--isolation <preset>', 'restrict files, network and processes').choices(PRESETS)
}

/** A whole number; its bounds are checked where it is used. */
export function wholeNumber(text: string): number {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  throw new InvalidArgumentError('It must be a whole number.')
}

const SIZES: Record<string, number> = { K: 1024, M: 1024 ** 2, G: 1024 ** 3, T: 1024 ** 4 }

/** 64MB, 1G, or a plain number of bytes. The units are powers of 1024. */
export function byteSize(text: string): number {
  const [, number = '', unit = ''] = /^(\d{1,9}(?:\.\d{1,3})?)(?:([KMGT])(?:i?B)?)?$/i.exec(text) ?? []
  if (number !== '') return Math.ceil(Number(number) * (SIZES[unit.toUpperCase()] ?? 1))
  throw new InvalidArgumentError('It must be a size like 64MB or 1GB.')
}

export function byteOffset(text: string): number {
  const number = Number(text)
  if (/^\d+$/.test(text) && Number.isSafeInteger(number)) return number
  throw new InvalidArgumentError('It must be a number of bytes.')
}

/** The text of a small file that a flag names. Throws OptionError. */
export function contentOf(flag: string, file: string): string {
  return smallText(file, `${flag} ${file}`)
}

/** The descriptor of the standard input. */
const STDIN = 0

/** `--input <file>`: the standard input of a job, of any kind and size. */
export function inputOf(file: string | undefined): Buffer | undefined {
  if (file === undefined) return undefined
  try {
    return readFileSync(file === '-' ? STDIN : file)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw invalidOption(`--input ${file} cannot be read: ${code}; name a file that this user may read`, {
      cause,
    })
  }
}

/** The shortest value that can be hidden: a shorter one would match too much. */
const SHORTEST_SECRET = 4

/** `--redact-file <file>`: values that must not be shown, one per line. Throws OptionError. */
export function secretsIn(file: string | undefined): string[] {
  if (file === undefined) return []
  const lines = contentOf('--redact-file', file).split(/\r?\n/)
  const short = lines.findIndex((line) => line !== '' && line.length < SHORTEST_SECRET)
  if (short < 0) return lines.filter((line) => line !== '')
  throw invalidOption(`line ${short + 1} of --redact-file must have at least ${SHORTEST_SECRET} characters`)
}

/** The token of a server, from the file of `--token-file` or from the environment. */
export function tokenOf(file: string | undefined): string | undefined {
  return file === undefined ? process.env.NACRE_TOKEN : contentOf('--token-file', file).trim()
}

/**
 * Takes the value of a variable out of the environment, so that no program inherits it. Without isolation, programs of the same
 * user can still read the initial environment of this process in /proc. Throws OptionError.
 */
export function takeVariable(flag: string, name: string, remedy = 'set it'): string {
  const value = process.env[name]
  delete process.env[name]
  if (value !== undefined) return value
  throw invalidOption(`${flag}${shownName(name)}: there is no variable of this name: ${remedy}`)
}

/** A name in capitals, behind a blank. Anything else may be a value that was given in its place, which no message shows. */
export function shownName(name: string): string {
  return /^[A-Z_]{1,64}$/.test(name) ? ` ${name}` : ''
}

/** A directory that exists, for programs that run in it only later. */
export function existingDirectory(text: string): string {
  if (statSync(text, { throwIfNoEntry: false })?.isDirectory()) return text
  throw new InvalidArgumentError('It must be an existing directory.')
}

/** A directory for this user alone, which is created unless it exists. Returns its absolute path. Throws OptionError. */
export function ownDirectory(flag: string, directory: string): string {
  try {
    makeDirectories(directory, 0o700)
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw invalidOption(`${flag} ${directory} cannot be created: ${code}`, { cause })
  }
  return path.resolve(directory)
}

/**
 * One word is shell text, as it was quoted; several are a program and its arguments, which no shell parses again. Throws
 * OptionError for an option after shell text, which would be an argument of a program with that text as its name.
 */
export function commandOf(words: string[], verb: Command): string | string[] {
  const [first = '', second] = words
  if (second === undefined) return first
  if (/^-./.test(second) && /\s/.test(first) && !followsDashes(words, verb))
    throw new OptionError(
      'INVALID_COMMAND',
      `${second.replace(/=.*/s, '')} after the command would be an argument of a program named '${first}': write options before the command, ` +
        'or -- before a program whose name has blanks',
    )
  return words
}

/** Whether `--` precedes the last words of the command line. */
function followsDashes(words: string[], verb: Command): boolean {
  let program = verb as Command & { rawArgs?: string[] }
  while (program.parent !== null) program = program.parent
  return program.rawArgs?.at(-words.length - 1) === '--'
}
