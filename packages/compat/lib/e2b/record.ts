/** What is kept of a sandbox of E2B. */
import { randomBytes } from 'node:crypto'
import type { Hosted, SandboxRecord } from '../hosted.js'
import type { Due } from '../registry.js'

export interface E2bRecord extends SandboxRecord {
  /** What clients of its files and processes must send. */
  token: string
  template: string
  metadata: Record<string, string>
  /** Milliseconds since 1970. */
  endAt: number
  pausesOnTimeout: boolean
  /** False: a pause by its time keeps the files alone. */
  keepsMemory: boolean
}

/** `timeout` is in milliseconds. */
export function newRecord(
  timeout: number,
  given: Omit<E2bRecord, 'id' | 'token' | 'startedAt' | 'endAt'>,
): E2bRecord {
  const startedAt = Date.now()
  return {
    id: `i${randomBytes(10).toString('hex').slice(1)}`,
    token: `ea_${randomBytes(24).toString('hex')}`,
    ...given,
    startedAt,
    endAt: startedAt + timeout,
  }
}

/** What happens to the sandbox by itself. */
export function dueOf({ state, record }: Hosted<E2bRecord>): Due | undefined {
  if (state === 'paused') return undefined
  const { endAt: at, pausesOnTimeout, keepsMemory } = record
  if (!pausesOnTimeout) return { at, end: 'remove' }
  return { at, end: 'pause', snapshot: keepsMemory ? 'full' : 'filesystem' }
}

/** Gives a sandbox that is resumed `timeout` milliseconds from now. Never shortens the time of one that runs. */
export function renew(record: E2bRecord, isResumed: boolean, timeout: number, now: number): void {
  record.endAt = isResumed ? now + timeout : Math.max(record.endAt, now + timeout)
}
