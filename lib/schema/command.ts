/**
 * Kinds of commands and of their input: shell text or an argument list; text, bytes, or a source that produces them.
 */
import { toBase64 } from '../base/base64.js'
import { invalidOption, OptionError } from '../base/errors.js'
import { bytesOf } from '../base/realm.js'
import type { Command, Input } from '../base/types.js'
import { text } from './constructors.js'
import type { FromBase64, JsonForm, Kind, Schema } from './kind.js'
import { describe, refusal } from './read.js'

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

function invalid(rule: string): OptionError {
  return new OptionError('INVALID_COMMAND', `command ${rule}`)
}

/** Refuses arguments in the place of options, which other libraries take there. Throws OptionError. */
export function refuseArguments(options: unknown, owner: string): void {
  if (!Array.isArray(options) && typeof options !== 'string') return
  throw invalidOption(
    `the options of ${owner} must be an object, not ${describe(options)}: write the program and its arguments as one list, like ['ls', '-la']`,
  )
}

/** The command as one line of text. An argument list is quoted so that bash would read the same arguments. */
export function showCommand(command: CheckedCommand): string {
  if (command.text !== undefined) return command.text
  return command.argv
    .map((item) => (PLAIN.test(item) ? item : `'${item.replaceAll("'", "'\\''")}'`))
    .join(' ')
}

export function encodeCommand(command: CheckedCommand): string | string[] {
  return command.text ?? command.argv
}

export const command: Kind<Command, CheckedCommand> = {
  read: readCommand,
  json: {
    schema: {
      name: 'Command',
      anyOf: [{ schema: { type: 'string' } }, { schema: { items: { schema: { type: 'string' } } } }],
    },
    rule: 'must be shell text or a list of arguments, like "ls -l" or ["ls", "-l"]',
    encode: encodeCommand,
  },
  bounds: 'shell text or a list of arguments',
}

/** Bytes, or a source of chunks, each of which is checked as it arrives. */
export type CheckedInput = Uint8Array | AsyncIterable<unknown>

const encoder = new TextEncoder()

/** A string or Uint8Array as bytes. */
export function inputBytes(value: unknown, name: string): Uint8Array {
  if (typeof value === 'string') return encoder.encode(value)
  const bytes = bytesOf(value)
  if (bytes !== undefined) return bytes
  throw refusal(name, 'must give strings or Uint8Arrays', value)
}

/** Reads an input; text becomes UTF-8. Streams of Node and the web are async iterables on every supported platform. */
export function commandInput(value: unknown, name: string): CheckedInput {
  if (typeof value === 'string') return inputBytes(value, name)
  const bytes = bytesOf(value)
  if (bytes !== undefined) return bytes
  if (isAsyncIterable(value)) return value
  throw refusal(name, 'must be a string, a Uint8Array, an async iterable or a ReadableStream', value)
}

function isAsyncIterable(value: unknown): value is AsyncIterable<unknown> {
  const iterable = value as Partial<AsyncIterable<unknown>> | null
  return typeof iterable === 'object' && typeof iterable?.[Symbol.asyncIterator] === 'function'
}

/** Text, or bytes. */
export type WireData = string | { base64: string }

export function encodeBytes(bytes: Uint8Array): WireData {
  return { base64: toBase64(bytes) }
}

export function decodeData(json: WireData, fromBase64: FromBase64): string | Uint8Array {
  return typeof json === 'string' ? json : fromBase64(json.base64)
}

export const base64 = text(
  (text) => text.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(text),
  'must be base64',
)

export const dataSchema: Schema = {
  name: 'Data',
  anyOf: [
    { schema: { type: 'string' } },
    { schema: { options: { base64 }, required: ['base64'], isOpen: false } },
  ],
}

/** A source of chunks is sent while the command runs. */
const json: JsonForm<unknown> = {
  schema: dataSchema,
  rule: 'must be text or bytes, like {"base64": "/w=="}',
  encode: (value) => (value instanceof Uint8Array ? encodeBytes(value) : undefined),
  decode: decodeData,
}

export const data: Kind<string | Uint8Array, Uint8Array> = { read: inputBytes, json, bounds: 'text or bytes' }

/** In JSON, text is only ever input: 'pipe' would keep it open. */
const openableJson: JsonForm<unknown> = {
  ...json,
  decode: (text: never, fromBase64) => inputBytes(decodeData(text, fromBase64), 'input'),
}

/** The input of a command or process. 'pipe' keeps it open for `write`. */
export const openableInput: Kind<Input | 'pipe', CheckedInput | 'pipe'> = {
  read: (value, name) => (value === 'pipe' ? value : commandInput(value, name)),
  json: openableJson,
  bounds: "text, bytes, an iterable of them, or 'pipe'",
}

/** An input that each restart of a service can read again. */
export const serviceInput: Kind<string | Uint8Array | 'pipe', Uint8Array | 'pipe'> = {
  read(value, name) {
    const input = openableInput.read(value, name)
    if (input === 'pipe' || input instanceof Uint8Array) return input
    throw invalidOption(`${name} of a service must be a string, a Uint8Array or 'pipe'`)
  },
  json: openableJson,
  bounds: "text, bytes or 'pipe'",
}
