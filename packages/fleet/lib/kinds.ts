/** Kinds of values of Kubernetes. */
import { kinds, OptionError } from 'nacre/internal'
import type { KubeConfigLike } from './public.js'

const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const LABEL_NAME = /^[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?$/
const LABEL_VALUE = /^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$/
const DNS_NAME = /^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$/

const DNS_LABEL_RULE = 'must be 1 to 63 characters of a-z 0-9 -, without - at its ends'
const DNS_LABEL_BOUNDS = 'a DNS label of at most 63 characters'

/** The name of an object or a namespace. */
export const dnsLabel = kinds.pattern(DNS_LABEL, DNS_LABEL_RULE, { bounds: DNS_LABEL_BOUNDS })

/** The id of a sandbox. */
export const sandboxId = kinds.pattern(DNS_LABEL, DNS_LABEL_RULE, {
  bounds: DNS_LABEL_BOUNDS,
  code: 'INVALID_ID',
})

const labelValue = kinds.pattern(LABEL_VALUE, 'must be at most 63 characters of A-Z a-z 0-9 . _ -')

/** Labels in the syntax of Kubernetes. */
export const labels: kinds.Kind<Readonly<Record<string, string>>, Record<string, string>> = {
  read(value, name) {
    const checked: Record<string, string> = {}
    for (const [key, text] of kinds.readEntries(value, name)) {
      const [last = '', ...domain] = key.split('/').reverse()
      if (!LABEL_NAME.test(last) || domain.length > 1 || !domain.every((part) => DNS_NAME.test(part)))
        throw new OptionError(
          'INVALID_OPTION',
          `${name} must have names of Kubernetes labels, not ${kinds.quote(key)}`,
        )
      checked[key] = labelValue.read(text, `${name}.${key}`)
    }
    return checked
  },
  bounds: 'Kubernetes labels by name',
}

export const kubeConfig = kinds.withMethods<KubeConfigLike>(
  ['getCurrentCluster'],
  () => 'must be a KubeConfig of @kubernetes/client-node',
  'a KubeConfig',
)
