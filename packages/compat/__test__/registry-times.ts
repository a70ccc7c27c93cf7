/** The times of sandboxes of both APIs, for the model of the registry. */
import {
  type DaytonaRecord,
  dueOf as dueOfDaytona,
  newRecord as newDaytonaRecord,
  noteChange,
} from '../lib/daytona/record.js'
import { dueOf, type E2bRecord, newRecord, renew } from '../lib/e2b/record.js'
import type { Times } from './registry-model.js'

const MINUTE = 60_000

export const e2b: Times<E2bRecord> = {
  isKept: false,
  due: dueOf,
  create(random, now) {
    const timeout = 1000 * (1 + random.below(120))
    const given = { template: 'base', metadata: {}, env: {}, network: 'host' as const }
    const lifecycle = { pausesOnTimeout: random.below(2) === 0, keepsMemory: random.below(2) === 0 }
    const record = newRecord(timeout, { ...given, ...lifecycle })
    return { ...record, startedAt: now, endAt: now + timeout }
  },
  renew: (record, isResumed, random, now) => renew(record, isResumed, 1000 * random.below(120), now),
  changed() {},
  endOf: ({ endAt }, isRunning) => (isRunning ? endAt : Number.POSITIVE_INFINITY),
}

export const daytona: Times<DaytonaRecord> = {
  isKept: true,
  due: dueOfDaytona,
  create(random, now) {
    const given = {
      labels: {},
      env: {},
      user: 'daytona',
      snapshot: 'local',
      isPublic: false,
      network: 'host' as const,
    }
    const record = newDaytonaRecord({
      ...given,
      autoStop: random.below(4),
      autoArchive: 0,
      autoDelete: random.below(4) - 1,
      ttl: random.below(5) === 0 ? 5 : 0,
    })
    return { ...record, startedAt: now, lastUse: now }
  },
  renew(record, _isResumed, _random, now) {
    record.lastUse = now
  },
  changed: noteChange,
  endOf({ ttl, startedAt, autoStop, autoDelete, lastUse, stoppedAt }, isRunning) {
    const never = Number.POSITIVE_INFINITY
    const destroyed = ttl > 0 ? startedAt + ttl * MINUTE : never
    const stopped = autoStop > 0 ? lastUse + autoStop * MINUTE : never
    const deleted = autoDelete >= 0 ? stoppedAt + autoDelete * MINUTE : never
    return Math.min(destroyed, isRunning ? stopped : deleted)
  },
}
