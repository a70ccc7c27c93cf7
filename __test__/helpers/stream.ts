/** Reading streams to their end, and waiting for what a command does on disk. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Encoding, ExecEvent } from 'nacre'
import { until } from './until.js'

/** Everything that an iterable gives. */
export async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const value of values) found.push(value)
  return found
}

/** The text of all output events of a stream, which must be text. */
export function textOf(events: ExecEvent<Encoding>[], type: 'stdout' | 'stderr' = 'stdout'): string {
  return events.map((event) => (event.type === type ? event.data : '')).join('')
}

/** The types of events, output that follows upon output of the same stream counted once. */
export function shapeOf(events: ExecEvent<Encoding>[]): string {
  return events
    .map(({ type }) => type)
    .filter((type, index, types) => type !== types[index - 1])
    .join(' ')
}

/** Waits until a command has made a file. */
export async function made(directory: string, name: string, limit = 5000): Promise<void> {
  await until(
    () => existsSync(path.join(directory, name)) || undefined,
    () => `${name} was not made`,
    limit,
  )
}
