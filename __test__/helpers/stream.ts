/** Reads streams to their end, and waits for files that a command creates. */
import { existsSync } from 'node:fs'
import path from 'node:path'
import type { Encoding, ExecEvent } from 'nacre'
import { until } from './until.js'

/** All values of an iterable. */
export async function all<T>(values: AsyncIterable<T>): Promise<T[]> {
  const found: T[] = []
  for await (const value of values) found.push(value)
  return found
}

/** The text of all output events of a stream, which must be text. */
export function textOf(events: ExecEvent<Encoding>[], type: 'stdout' | 'stderr' = 'stdout'): string {
  return events.map((event) => (event.type === type ? event.data : '')).join('')
}

/** The types of events, counting consecutive output of the same stream once. */
export function shapeOf(events: ExecEvent<Encoding>[]): string {
  return events
    .map(({ type }) => type)
    .filter((type, index, types) => type !== types[index - 1])
    .join(' ')
}

/** The error of the last event. */
export function endOf(events: ExecEvent<Encoding>[]): unknown {
  const last = events.at(-1)
  return last?.type === 'error' ? last.error : undefined
}

/** Waits until a command has created a file. */
export async function made(directory: string, name: string): Promise<void> {
  await until(
    () => existsSync(path.join(directory, name)) || undefined,
    () => `${name} was not made`,
  )
}

/** Waits until the command has printed. Its stream may end before that: an iteration that has ended would be asked for ever. */
export async function printed(events: AsyncIterator<{ type: string }, undefined>): Promise<void> {
  for (let step = await events.next(); !step.done && step.value.type !== 'stdout'; )
    step = await events.next()
}
