/** Recordings as a player reads them, without the code that writes them. */
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import { Terminal } from '@xterm/headless'

export interface Cast {
  header: { version: number; term: { cols: number; rows: number }; timestamp: number; title: string }
  /** Interval, code and data. */
  events: [number, string, string][]
  comments: string[]
  /** All output. */
  output: string
}

/** Runs a test with a directory that does not exist yet. */
export async function withDirectory(test: (directory: string) => Promise<void>): Promise<void> {
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-recordings-'))
  try {
    await test(path.join(base, 'recordings'))
  } finally {
    rmSync(base, { recursive: true, force: true })
  }
}

/** The files of a recording in their order. */
export function filesOf(directory: string, name: string): string[] {
  return readdirSync(directory)
    .filter((file) => file.startsWith(`${name}-`))
    .sort()
    .map((file) => path.join(directory, file))
}

export function readCast(file: string): Cast {
  const bytes = readFileSync(file)
  const text = (file.endsWith('.gz') ? gunzipSync(bytes) : bytes).toString()
  const [header = '', ...lines] = text.split('\n')
  if (lines.pop() !== '') throw new Error(`${file} does not end with a newline`)
  const comments = lines.filter((line) => line.startsWith('#'))
  const events = lines.filter((line) => !line.startsWith('#')).map((line) => JSON.parse(line))
  const output = events.flatMap(([, code, data]) => (code === 'o' ? [data] : [])).join('')
  return { header: JSON.parse(header), events, comments, output }
}

/** The only file of a recording. */
export function onlyCast(directory: string, name: string): Cast {
  const [file, ...others] = filesOf(directory, name)
  if (file === undefined || others.length > 0) throw new Error(`${name}: ${readdirSync(directory)}`)
  return readCast(file)
}

/** The screen at the end of a recording. */
export async function screenOf({ header, events }: Cast): Promise<string> {
  const terminal = new Terminal({ ...header.term, scrollback: 0, allowProposedApi: true })
  for (const [, code, data] of events) {
    if (code === 'r') {
      const [cols = 0, rows = 0] = data.split('x').map(Number)
      terminal.resize(cols, rows)
    }
    if (code === 'o') await write(terminal, data)
  }
  return shown(terminal)
}

/** The screen of a terminal of this size after some output. */
export async function screenAfter(cols: number, rows: number, output: string): Promise<string> {
  const terminal = new Terminal({ cols, rows, scrollback: 0, allowProposedApi: true })
  await write(terminal, output)
  return shown(terminal)
}

function write(terminal: Terminal, data: string): Promise<void> {
  return new Promise((resolve) => terminal.write(data, resolve))
}

function shown({ buffer: { active }, rows, cols }: Terminal): string {
  const lines = Array.from({ length: rows }, (_, row) => active.getLine(row)?.translateToString(true) ?? '')
  return `${cols}x${rows} ${active.cursorX},${active.cursorY} ${active.type}\n${lines.join('\n').trimEnd()}`
}
