/**
 * Output: colours on a terminal only, and no faster than it is read.
 */
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { styleText } from 'node:util'
import type { Logger } from '../calls/index.js'

/** The colours for a stream; without a terminal, or with NO_COLOR, the same functions that change nothing. */
export function colorsOf(stream: Writable & { isTTY?: boolean }) {
  const isColored = stream.isTTY === true && process.env.NO_COLOR === undefined
  const paint = (style: 'bold' | 'cyan' | 'dim' | 'green' | 'red' | 'yellow') => (text: string) =>
    isColored ? styleText(style, text, { validateStream: false }) : text
  return {
    bold: paint('bold'),
    cyan: paint('cyan'),
    dim: paint('dim'),
    green: paint('green'),
    red: paint('red'),
    yellow: paint('yellow'),
  }
}

/** Resolves when the stream has taken it. False when the reader has exited, as with `| head`. Rejects when it is lost. */
export function write(stream: Writable, data: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    if (stream.destroyed) return resolve(false)
    stream.write(data, (error) => {
      if (error == null || (error as NodeJS.ErrnoException).code === 'EPIPE') resolve(error == null)
      else reject(new Error(`the output cannot be written: ${error.message}`))
    })
  })
}

export async function printLine(text: string): Promise<void> {
  await write(process.stdout, `${text}\n`)
}

/** A remark on standard error, apart from the output. */
export function note(text: string): void {
  process.stderr.write(`${colorsOf(process.stderr).dim('nacre:')} ${text}\n`)
}

export async function printJson(value: unknown): Promise<void> {
  await printLine(JSON.stringify(value))
}

/** Writes the log to standard error, one line for each message: standard output is for what was asked for. */
export const stderrLogger: Logger = { debug() {}, info: logLine, warn: logLine, error: logLine }

function logLine(message: string): void {
  // It may have text of a client.
  console.error(printableLines(message).replaceAll('\n', '\n  '))
}

/** The exit code after the reader has exited: as after SIGPIPE. */
export const NOBODY_READS = 141

/** A name on one line, without the control characters that could drive the terminal. */
export function printable(name: string): string {
  if (!CONTROL.test(name)) return name
  return JSON.stringify(name).replace(CONTROLS, escaped)
}

/** A message of several lines, without the other control characters: a server may have written part of it. */
export function printableLines(message: string): string {
  return message
    .split('\n')
    .map((line) => line.replace(CONTROLS, escaped))
    .join('\n')
}

function escaped(control: string): string {
  return `\\u00${control.charCodeAt(0).toString(16).padStart(2, '0')}`
}

const CONTROL = /\p{Cc}/u
/** JSON escapes only those below 32. */
const CONTROLS = /\p{Cc}/gu

/** Whether a user can read a question and answer it. */
export function isInteractive(): boolean {
  return process.stdin.isTTY === true && process.stderr.isTTY === true
}

/** Asks on standard error. True if the answer is yes; false also when the input ends. */
export async function confirm(question: string): Promise<boolean> {
  note(`${question} [y/N]`)
  return /^y(es)?$/i.test((await answer()) ?? '')
}

/** Asks on standard error until the answer is one of the keys. Undefined when the input ends. */
export async function choose<Key extends string>(choices: Record<Key, string>): Promise<Key | undefined> {
  const question = Object.entries(choices)
    .map(([key, meaning]) => `${key}: ${meaning}`)
    .join(', ')
  for (;;) {
    note(question)
    const key = (await answer())?.toLowerCase()
    if (key === undefined) return undefined
    if (Object.hasOwn(choices, key)) return key as Key
  }
}

/** The lines of the input. Opened once for all questions: a user may type the next answer before its question. */
let lines: AsyncIterator<string> | undefined

/** The next line of the input. Undefined when the input ends. */
async function answer(): Promise<string | undefined> {
  // A terminal that a command had before no longer keeps this program alive.
  process.stdin.ref?.()
  lines ??= createInterface({ input: process.stdin })[Symbol.asyncIterator]()
  try {
    const { done, value } = await lines.next()
    return done ? undefined : value.trim()
  } finally {
    process.stdin.unref?.()
  }
}
