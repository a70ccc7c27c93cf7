/** Kinds of agent-sandbox's resources, v1beta1: the fields that nacre uses. Unknown fields are errors. */
import { local, object, oneOf, pattern } from '../../lib/schema/constructors.js'
import { count } from '../../lib/schema/numbers.js'

const name = pattern(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/, 'must be a name of Kubernetes')
const strings = local<Record<string, string>>(
  (value) => Object.values(value as object).every((text) => typeof text === 'string'),
  'must be strings by name',
)
const metadata = object({ name, namespace: name, labels: strings, annotations: strings }, ['name'])
const podMetadata = object({ labels: strings, annotations: strings })
const apiVersion = oneOf(['extensions.agents.x-k8s.io/v1beta1'])
const replicas = count(0, Number.MAX_SAFE_INTEGER)
// Checked as the spec of a pod.
const podSpec = local<{ containers: object[] }>(
  (value) => (value as { containers: object[] }).containers.length > 0,
  'must have containers',
)
const all = ['apiVersion', 'kind', 'metadata', 'spec'] as const

export const sandboxTemplate = object(
  {
    ...{ apiVersion, kind: oneOf(['SandboxTemplate']), metadata },
    spec: object(
      {
        podTemplate: object({ metadata: podMetadata, spec: podSpec }, ['spec']),
        networkPolicyManagement: oneOf(['Managed', 'Unmanaged']),
        envVarsInjectionPolicy: oneOf(['Allowed', 'Overrides', 'Disallowed']),
      },
      ['podTemplate'],
    ),
  },
  all,
)

export const sandboxWarmPool = object(
  {
    ...{ apiVersion, kind: oneOf(['SandboxWarmPool']), metadata },
    spec: object(
      {
        replicas,
        sandboxTemplateRef: object({ name }, ['name']),
        updateStrategy: object({ type: oneOf(['Recreate', 'OnReplenish']) }, ['type']),
      },
      ['replicas', 'sandboxTemplateRef'],
    ),
  },
  all,
)

export const sandboxClaim = object(
  {
    ...{ apiVersion, kind: oneOf(['SandboxClaim']), metadata },
    spec: object(
      {
        warmPoolRef: object({ name }, ['name']),
        lifecycle: object({
          // Kubernetes stores whole seconds.
          shutdownTime: pattern(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'must be a time in whole seconds'),
          ttlSecondsAfterFinished: count(0, Number.MAX_SAFE_INTEGER),
          shutdownPolicy: oneOf(['Delete', 'DeleteForeground', 'Retain']),
        }),
        additionalPodMetadata: podMetadata,
      },
      ['warmPoolRef'],
    ),
  },
  all,
)
