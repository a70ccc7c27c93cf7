/**
 * SandboxClaims of agent-sandbox: what the fleet writes of them, and what it reads. Pure.
 */
import type { LostSandbox } from 'nacre'

export const GROUP = 'extensions.agents.x-k8s.io'
export const VERSION = 'v1beta1'
export const PLURAL = 'sandboxclaims'
export const SANDBOX_GROUP = 'agents.x-k8s.io'
export const SANDBOX_PLURAL = 'sandboxes'

/** Marks the claims of fleets. */
export const MANAGED_BY = { 'app.kubernetes.io/managed-by': 'nacre-fleet' } as const
export const SELECTOR = 'app.kubernetes.io/managed-by=nacre-fleet'

/** Milliseconds of the time to live. */
const TTL = 'nacre.dev/ttl'
/** The call of `create` that has made the claim. */
const NONCE = 'nacre.dev/created-by'
/** The instance of the server that has answered first. */
const INSTANCE = 'nacre.dev/instance'

interface Metadata {
  name: string
  namespace?: string
  uid?: string
  resourceVersion?: string
  deletionTimestamp?: string
  labels?: Record<string, string>
  annotations?: Record<string, string>
}

interface Condition {
  type: string
  status: string
  reason?: string
  message?: string
}

export interface Claim {
  metadata: Metadata
  spec: {
    warmPoolRef: { name: string }
    lifecycle?: { shutdownTime?: string; shutdownPolicy?: string }
    additionalPodMetadata?: { labels?: Record<string, string> }
  }
  status?: { conditions?: Condition[]; sandbox?: { name?: string; podIPs?: string[] } }
}

export interface NewClaim {
  id: string
  namespace: string
  warmPool: string
  labels: Record<string, string>
  /** Milliseconds. */
  ttl: number
  nonce: string
}

/** A claim as it is created. It expires even if its creator never returns. */
export function newClaim({ id, namespace, warmPool, labels, ttl, nonce }: NewClaim, now: number): Claim {
  return {
    ...{ apiVersion: `${GROUP}/${VERSION}`, kind: 'SandboxClaim' },
    metadata: {
      name: id,
      namespace,
      labels: { ...labels, ...MANAGED_BY },
      annotations: { [TTL]: String(ttl), [NONCE]: nonce },
    },
    spec: {
      warmPoolRef: { name: warmPool },
      lifecycle: { shutdownTime: shutdownTime(now + ttl), shutdownPolicy: 'Delete' },
      ...(Object.keys(labels).length > 0 && { additionalPodMetadata: { labels } }),
    },
  }
}

/** A time as Kubernetes keeps it: in whole seconds, rounded up. */
export function shutdownTime(milliseconds: number): string {
  return `${new Date(Math.ceil(milliseconds / 1000) * 1000).toISOString().slice(0, 19)}Z`
}

/** The merge patch that extends a claim, and records the instance of its server. The version must be that of the claim. */
export function extension({ metadata }: Claim, until: number, instance: string | undefined): object {
  return {
    metadata: {
      resourceVersion: metadata.resourceVersion,
      ...(instance !== undefined && { annotations: { [INSTANCE]: instance } }),
    },
    spec: { lifecycle: { shutdownTime: shutdownTime(until), shutdownPolicy: 'Delete' } },
  }
}

export function isManaged({ metadata: { labels = {} } }: Claim): boolean {
  return Object.entries(MANAGED_BY).every(([name, value]) => labels[name] === value)
}

/** Whether it is being deleted. */
export function isEnding({ metadata }: Claim): boolean {
  return metadata.deletionTimestamp !== undefined
}

export function isOf({ metadata }: Claim, nonce: string): boolean {
  return metadata.annotations?.[NONCE] === nonce
}

/** Milliseconds; undefined for a claim without. */
export function ttlOf({ metadata }: Claim): number | undefined {
  const ttl = Number(metadata.annotations?.[TTL])
  return Number.isFinite(ttl) && ttl > 0 ? ttl : undefined
}

export function instanceOf({ metadata }: Claim): string | undefined {
  return metadata.annotations?.[INSTANCE]
}

/** Milliseconds since 1970; undefined for a claim that does not expire. */
export function expiryOf({ spec }: Claim): number | undefined {
  const time = Date.parse(spec.lifecycle?.shutdownTime ?? '')
  return Number.isNaN(time) ? undefined : time
}

/** The labels that the creator gave. */
export function labelsOf({ metadata: { labels = {} } }: Claim): Record<string, string> {
  return Object.fromEntries(Object.entries(labels).filter(([name]) => !Object.hasOwn(MANAGED_BY, name)))
}

/** Where a pod is. */
export interface Pod {
  /** The name of the Sandbox. */
  name: string
  ips: string[]
}

/** The pod of a claim; undefined while there is none. */
export function podOf({ status }: Claim): Pod | undefined {
  const { name, podIPs = [] } = status?.sandbox ?? {}
  return name ? { name, ips: podIPs } : undefined
}

/** The pod of a claim that is ready; undefined otherwise. */
export function readyPodOf(claim: Claim): Pod | undefined {
  const ready = claim.status?.conditions?.find(({ type }) => type === 'Ready')
  return ready?.status === 'True' ? podOf(claim) : undefined
}

/** Whether there is no pod any more: one has answered before. */
export function hasStopped(claim: Claim): boolean {
  return instanceOf(claim) !== undefined && podOf(claim) === undefined
}

/** Why a claim that had a pod has lost it; undefined while it has it. */
export function lossReason(
  claim: Claim | undefined,
  had: { uid: string | undefined; pod: Pod; expiresAt: number | undefined },
  now: number,
): LostSandbox['reason'] | undefined {
  if (claim === undefined || claim.metadata.uid !== had.uid)
    return had.expiresAt !== undefined && now >= had.expiresAt ? 'expired' : 'deleted'
  const pod = podOf(claim)
  if (pod === undefined) return 'stopped'
  if (pod.name !== had.pod.name) return 'replaced'
  const hasMoved =
    pod.ips.length > 0 && had.pod.ips.length > 0 && !pod.ips.some((ip) => had.pod.ips.includes(ip))
  return hasMoved ? 'replaced' : undefined
}

/** The last state of a claim that is not ready, for messages. */
export function conditionOf(claim: Claim | undefined): string {
  if (claim === undefined) return 'there is no such claim'
  const ready = claim.status?.conditions?.find(({ type }) => type === 'Ready')
  if (ready === undefined) return 'the claim has no condition Ready'
  const { reason = '', message = '' } = ready
  return `the claim is not ready: ${[reason, message].filter(Boolean).join(': ') || 'no reason is given'}`
}
