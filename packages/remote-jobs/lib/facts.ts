/**
 * What the script reports about a job, and the conclusions from it. In one call, the script reads the record, the live
 * processes, and the record again. This module decides what that means, without further queries.
 */
import type { durable } from 'nacre/internal'

interface Record {
  /** From the file `exit`. */
  exit: number
  /** From `end.json`, if it exists. */
  end: { [field: string]: unknown }
}

export interface Facts {
  jobId: string
  first: Record | undefined
  second: Record | undefined
  life: 'alive' | 'dead' | 'reboot'
  /** The text of `meta.json`; empty if only its existence is reported, undefined if there is none. */
  meta: string | undefined
}

/** Reads all jobs that the lines describe. */
export function readFacts(lines: readonly string[]): Facts[] {
  const found: Facts[] = []
  for (const line of lines) {
    const [key = '', ...words] = line.split(' ')
    if (key === 'job')
      found.push({
        jobId: words[0] ?? '',
        first: undefined,
        second: undefined,
        life: 'dead',
        meta: undefined,
      })
    const last = found.at(-1)
    if (last === undefined) continue
    if (key === 'first' || key === 'second') last[key] = readRecord(words)
    if (key === 'life') last.life = words[0] === 'alive' || words[0] === 'reboot' ? words[0] : 'dead'
    if (key === 'meta') last.meta = fromBase64(words).toString()
    if (key === 'data') break
  }
  return found
}

/** Decodes base64 that was broken into words or lines. */
export function fromBase64(words: readonly string[]): Buffer {
  return Buffer.from(words.join(''), 'base64')
}

/**
 * The state, in the same form as from the native side; undefined if the job has never finished starting.
 *
 * The second record is for a job that ends between the first read and the check of its processes: it writes its record
 * before it ends. So a job is `crashed` only if its processes were gone while there was still no record.
 */
export function statusOf({ first, second, life, meta }: Facts): durable.JobState | undefined {
  const alive = life === 'alive'
  if (meta === undefined && first === undefined && second === undefined) return undefined
  if (first === undefined && alive) return { state: 'running', alive, outputLost: false }
  const record = first ?? second
  if (record === undefined)
    return { state: 'crashed', alive, reason: life === 'reboot' ? 'reboot' : 'killed', outputLost: false }
  const { exit, end } = record
  const signal = number(end.signal)
  return {
    state: 'exited',
    exitCode: signal === undefined ? (number(end.exitCode) ?? exit) : undefined,
    signal,
    reason: end.reason as durable.JobState['reason'],
    alive: alive && end.leftBehind !== false,
    endedAt: string(end.endedAt),
    duration: number(end.durationMs),
    outputLost: end.outputLost === true,
  }
}

/** The identity of the job; undefined if `meta.json` is missing, damaged, or names a group that must not be signalled. */
export function jobOf({ jobId, meta }: Facts): (durable.JobRecord & { graceMs?: number }) | undefined {
  const fields = parse(meta ?? '')
  const [dir, outputFile, exitFile] = [string(fields.dir), string(fields.outputFile), string(fields.exitFile)]
  const pgid = number(fields.pgid)
  if (fields.jobId !== jobId || pgid === undefined || !Number.isInteger(pgid) || pgid <= 1) return undefined
  if (dir === undefined || outputFile === undefined || exitFile === undefined) return undefined
  return {
    jobId,
    dir,
    outputFile,
    exitFile,
    pgid,
    cgroup: string(fields.cgroup),
    processName: string(fields.processName),
    createdAt: string(fields.createdAt) ?? '',
    command: string(fields.command),
    graceMs: number(fields.graceMs),
  }
}

function readRecord([exit = '', ...end]: string[]): Record {
  return { exit: Number(exit), end: parse(fromBase64(end).toString()) }
}

/** The fields of a JSON object; empty for any other text. */
function parse(text: string): { [field: string]: unknown } {
  try {
    const value: unknown = JSON.parse(text)
    return typeof value === 'object' && value !== null ? (value as { [field: string]: unknown }) : {}
  } catch {
    return {}
  }
}

function number(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined
}

function string(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}
