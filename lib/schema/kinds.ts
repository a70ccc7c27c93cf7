/**
 * The kinds of values that options have: reader, JSON form and bounds in one place.
 */

import { toBase64 } from '../base/base64.js'
import type { Encoding } from '../public/index.js'
import { type CheckedCommand, readCommand } from './command.js'
import { type EnvLists, envChanges } from './env.js'
import { ID, identifier } from './ids.js'
import { type CheckedInput, commandInput, inputBytes } from './input.js'
import { decodeData, decodeEnv, encodeCommand, encodeEnv } from './json.js'
import {
  byteCount,
  GIBIBYTE,
  interval,
  MAX_MILLISECONDS,
  milliseconds as readMilliseconds,
  wholeNumber,
} from './numbers.js'
import type { FromBase64, Kind, Reader } from './option.js'
import { directory as readDirectory } from './paths.js'
import { abortSignal as readAbortSignal, processSignal as readProcessSignal } from './signals.js'
import { callback as readCallback, encoding as readEncoding, flag as readFlag } from './values.js'

export const milliseconds: Kind<number> = {
  read: readMilliseconds,
  json: { schema: { type: 'number', minimum: 0, maximum: MAX_MILLISECONDS } },
  bounds: `0 to ${MAX_MILLISECONDS} ms`,
}

/** Between two attempts. */
export const pause: Kind<number> = {
  read: interval,
  json: { schema: { type: 'number', exclusiveMinimum: 0, maximum: MAX_MILLISECONDS } },
  bounds: `1 to ${MAX_MILLISECONDS} ms`,
}

export const bytes: Kind<number> = {
  read: byteCount,
  json: { schema: { type: 'integer', minimum: 0, maximum: Number.MAX_SAFE_INTEGER } },
  bounds: '0 to Number.MAX_SAFE_INTEGER bytes',
}

export const flag: Kind<boolean> = {
  read: readFlag,
  json: { schema: { type: 'boolean' } },
  bounds: 'true or false',
}

/** For what is done where the call is made, so it is not sent. */
export const ownFlag: Kind<boolean> = { read: readFlag, bounds: flag.bounds }

export const id: Kind<string> = {
  read: identifier,
  json: { schema: { type: 'string', pattern: ID.source } },
  bounds: '1 to 128 of A-Z a-z 0-9 . _ -',
}

export const directory: Kind<string> = {
  read: readDirectory,
  json: { schema: { type: 'string' } },
  bounds: 'a path or a file: URL',
}

export const env: Kind<EnvLists> = {
  read: envChanges,
  json: { schema: { type: 'named', name: 'Env' }, encode: encodeEnv, decode: decodeEnv },
  bounds: 'strings by name; undefined unsets',
}

export const command: Kind<CheckedCommand> = {
  read: readCommand,
  json: { schema: { type: 'named', name: 'Command' }, encode: encodeCommand },
  bounds: 'shell text or a list of arguments',
}

export const killSignal: Kind<number> = {
  read: readProcessSignal,
  json: {
    schema: { type: 'either', of: [{ type: 'string' }, { type: 'integer', minimum: 1, maximum: 64 }] },
  },
  bounds: 'a name like SIGTERM, or 1 to 64',
}

export const encoding: Kind<Encoding> = {
  read: readEncoding,
  json: { schema: { type: 'enum', values: ['utf8', 'buffer'] } },
  bounds: 'utf8 or buffer',
}

/** The JSON form of input. A source of chunks is sent while the command runs. */
const inputJson = {
  schema: { type: 'named', name: 'Data' },
  encode: (value: unknown) => (value instanceof Uint8Array ? { base64: toBase64(value) } : undefined),
  decode: decodeData,
} as const

export const input: Kind<CheckedInput> = {
  read: commandInput,
  json: inputJson,
  bounds: 'text, bytes or an iterable of them',
}

/** Input that may also stay open, for `write`. As text, 'pipe' would mean that. */
export function openableInput<T>(read: Reader<T>, bounds: string): Kind<T> {
  const decode = (json: never, fromBase64: FromBase64) => inputBytes(decodeData(json, fromBase64), 'input')
  return { read, json: { ...inputJson, decode }, bounds }
}

export const data: Kind<Uint8Array> = { read: inputBytes, json: inputJson, bounds: 'text or bytes' }

export const abortSignal: Kind<AbortSignal> = { read: readAbortSignal, bounds: 'an AbortSignal' }

export const callback: Kind<(...parameters: unknown[]) => unknown> = {
  read: readCallback,
  bounds: 'a function',
}

/** A whole number within bounds. */
export function count(minimum: number, maximum: number, unit = ''): Kind<number> {
  return {
    read: wholeNumber(minimum, maximum, unit === 'bytes' ? GIBIBYTE : ''),
    json: { schema: { type: 'integer', minimum, maximum } },
    bounds: `${minimum} to ${maximum === Number.MAX_SAFE_INTEGER ? 'Number.MAX_SAFE_INTEGER' : maximum}${unit && ` ${unit}`}`,
  }
}

/** One of a few words; the reader has the message. */
export function oneOf<T extends string>(read: Reader<T>, ...values: readonly T[]): Kind<T> {
  return { read, json: { schema: { type: 'enum', values } }, bounds: values.join(' or ') }
}
