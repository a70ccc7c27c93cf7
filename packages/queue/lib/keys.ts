/**
 * Names: the keys in Redis, and the ids of durable jobs.
 */
import { createHash } from 'node:crypto'
import { durable } from 'nacre/internal'

/** One attempt of a job. */
export interface AttemptRef {
  /** The id of the BullMQ job. */
  id: string
  attempt: number
}

export class Names {
  /** What all keys of nacre begin with; those in `scripts` follow. */
  readonly base: string
  /** What BullMQ's keys begin with. */
  readonly bull: string
  /** Tells the jobs of queues apart that share a directory of jobs. */
  readonly #suffix: string

  constructor(prefix: string, name: string) {
    this.bull = `${prefix}:${name}:`
    this.base = `nacre:${this.bull}`
    this.#suffix = createHash('sha256').update(this.bull).digest('hex').slice(0, 8)
  }

  /** Requests to a host. */
  inbox(host: string): string {
    return `${this.base}inbox:${host}`
  }

  /** The channel of the answers for one queue object. */
  replies(reader: string): string {
    return `${this.base}replies:${reader}`
  }

  /** The id of the durable job: the attempt comes after the last dot but one, whatever dots the id has. */
  durableId({ id, attempt }: AttemptRef): string {
    return `${id}.${attempt}.${this.#suffix}`
  }

  /** The attempt that a durable job is; undefined when it is no job of this queue. */
  attemptOf(durableId: string): AttemptRef | undefined {
    const [, id, attempt, suffix] = /^(.+)\.(\d{1,7})\.([0-9a-f]{8})$/.exec(durableId) ?? []
    if (id === undefined || suffix !== this.#suffix) return undefined
    return { id, attempt: Number(attempt) }
  }
}

/** The token of BullMQ's lock: it belongs to the host of the attempt, not to one process of its worker. */
export function lockToken(host: string, attempt: number): string {
  return `nacre:${host}:${attempt}`
}

/**
 * The name of a durable job. Its host is in it, since hosts may share a directory of jobs, and the key of its addition,
 * since an id may be added again after its job was removed.
 */
export function labelOf(host: string, uid: string): string {
  return `${durable.QUEUE_LABEL}:${host}:${uid}`
}

/** The reverse of `labelOf`; undefined for a name of another kind. */
export function readLabel(label: string | undefined): { host: string; uid: string } | undefined {
  const [kind, host, uid, ...others] = label?.split(':') ?? []
  if (kind !== durable.QUEUE_LABEL || host === undefined || uid === undefined || others.length > 0)
    return undefined
  return { host, uid }
}
