/** What is kept of a sandbox of Daytona, and its description. */
import { randomBytes, randomUUID } from 'node:crypto'
import os from 'node:os'
import type { Hosted, SandboxRecord } from '../hosted.js'
import { diskSize } from '../measure.js'
import type { Change, Due } from '../registry.js'

export interface DaytonaRecord extends SandboxRecord {
  name: string
  labels: Record<string, string>
  /** The user that the client wanted. */
  user: string
  snapshot: string
  isPublic: boolean
  /** Minutes without use until it stops; 0 = never. */
  autoStop: number
  /** Minutes from the stop until it is deleted; negative = never. */
  autoDelete: number
  /** Stored only. */
  autoArchive: number
  /** Minutes from its creation until it is deleted; 0 = never. */
  ttl: number
  /** Milliseconds since 1970. */
  lastUse: number
  /** 0 while it runs. */
  stoppedAt: number
  /** How often the key was replaced that signs addresses of files. */
  rotations: number
}

const MINUTE = 60_000

export type NewRecord = Omit<
  DaytonaRecord,
  'id' | 'name' | 'startedAt' | 'lastUse' | 'stoppedAt' | 'rotations'
>

/** Without a name, the id is its name. */
export function newRecord(given: NewRecord, name?: string): DaytonaRecord {
  const id = randomUUID()
  const now = Date.now()
  return {
    id,
    name: name ?? id,
    ...given,
    startedAt: now,
    lastUse: now,
    stoppedAt: 0,
    rotations: 0,
  }
}

export function freshSecret(): string {
  return randomBytes(24).toString('hex')
}

/** What happens to the sandbox by itself. */
export function dueOf({ state, record, connections }: Hosted<DaytonaRecord>, now: number): Due | undefined {
  const { ttl, startedAt, autoStop, autoDelete, lastUse, stoppedAt } = record
  const dues: Due[] = []
  if (ttl > 0) dues.push({ at: startedAt + ttl * MINUTE, end: 'remove' })
  if (stoppedAt > 0 && autoDelete >= 0) dues.push({ at: stoppedAt + autoDelete * MINUTE, end: 'remove' })
  if (state === 'running' && autoStop > 0) {
    const usedAt = connections.size > 0 ? now : lastUse
    dues.push({ at: usedAt + autoStop * MINUTE, end: 'pause', snapshot: 'shells' })
  }
  return dues.sort((one, other) => one.at - other.at)[0]
}

/** Notes when it has stopped. */
export function noteChange(record: DaytonaRecord, change: Change, now: number): void {
  record.stoppedAt = change === 'running' ? 0 : now
}

export function stateOf({ state }: Hosted): 'started' | 'stopped' {
  return state === 'running' ? 'started' : 'stopped'
}

/** The sandbox as the API describes it. */
export function shown(hosted: Hosted<DaytonaRecord>, toolbox: string, state: string = stateOf(hosted)) {
  const { record } = hosted
  const time = (milliseconds: number) => new Date(milliseconds).toISOString()
  return {
    id: record.id,
    organizationId: 'nacre',
    name: record.name,
    user: record.user,
    env: record.env,
    labels: record.labels,
    snapshot: record.snapshot,
    public: record.isPublic,
    networkBlockAll: record.network === 'none',
    kvm: false,
    target: 'local',
    cpu: os.availableParallelism(),
    gpu: 0,
    memory: Math.round(os.totalmem() / 2 ** 30),
    disk: Math.round(diskSize(hosted.root) / 2 ** 30),
    state,
    desiredState: state,
    autoStopInterval: record.autoStop,
    autoArchiveInterval: record.autoArchive,
    autoDeleteInterval: record.autoDelete,
    ...(record.ttl > 0 ? { autoDestroyAt: time(record.startedAt + record.ttl * MINUTE) } : {}),
    createdAt: time(record.startedAt),
    updatedAt: time(record.lastUse),
    lastActivityAt: time(record.lastUse),
    toolboxProxyUrl: toolbox,
  }
}
