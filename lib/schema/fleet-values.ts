/** Readers for the options of SandboxFleet. */
import { OptionError } from '../base/errors.js'
import type { KubeConfigLike } from '../public/fleet.js'
import { describe, quote, readEntries } from './read.js'

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const LABEL_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/
const DNS_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/

/** The name of an object, a namespace or a sandbox. */
export function dnsLabel(value: unknown, name: string): string {
  if (typeof value === 'string' && DNS_LABEL.test(value)) return value
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be 1 to 63 characters of a-z 0-9 -, without - at its ends, not ${describe(value)}`,
  )
}

/** The id of a sandbox. */
export function sandboxId(value: unknown, name: string): string {
  if (typeof value === 'string' && DNS_LABEL.test(value)) return value
  throw new OptionError(
    'INVALID_ID',
    `${name} must be 1 to 63 characters of a-z 0-9 -, without - at its ends, not ${describe(value)}`,
  )
}

/** Labels in the syntax of Kubernetes. */
export function labels(value: unknown, name: string): Record<string, string> {
  const checked: Record<string, string> = {}
  for (const [key, text] of readEntries(value, name)) {
    const [last = '', ...domain] = key.split('/').reverse()
    if (!LABEL_NAME.test(last) || domain.length > 1 || !domain.every((part) => DNS_NAME.test(part)))
      throw new OptionError(
        'INVALID_OPTION',
        `${name} must have names of Kubernetes labels, not ${quote(key)}`,
      )
    if (typeof text !== 'string' || (text !== '' && !LABEL_NAME.test(text)))
      throw new OptionError(
        'INVALID_OPTION',
        `${name}.${key} must be at most 63 characters of A-Z a-z 0-9 . _ -, not ${describe(text)}`,
      )
    checked[key] = text
  }
  return checked
}

export function kubeConfig(value: unknown, name: string): KubeConfigLike {
  if (typeof (value as Partial<KubeConfigLike> | null)?.getCurrentCluster === 'function')
    return value as KubeConfigLike
  throw new OptionError(
    'INVALID_OPTION',
    `${name} must be a KubeConfig of @kubernetes/client-node, not ${describe(value)}`,
  )
}
