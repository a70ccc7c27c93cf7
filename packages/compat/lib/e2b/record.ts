/** What is kept of a sandbox of E2B. */
import { randomBytes } from 'node:crypto'
import type { SandboxRecord } from '../hosted.js'

export interface E2bRecord extends SandboxRecord {
  /** What clients of its files and processes must send. */
  token: string
  template: string
  metadata: Record<string, string>
  /** Milliseconds since 1970. */
  endAt: number
  pausesOnTimeout: boolean
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
