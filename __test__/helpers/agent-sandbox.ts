/** Schemas of agent-sandbox's resources, v1beta1: the fields that nacre uses. Unknown fields are errors. */
import { z } from 'zod'

const name = z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
const strings = z.record(z.string(), z.string())
const metadata = z.strictObject({
  name,
  namespace: name.optional(),
  labels: strings.optional(),
  annotations: strings.optional(),
})
const apiVersion = z.literal('extensions.agents.x-k8s.io/v1beta1')

export const sandboxTemplate = z.strictObject({
  apiVersion,
  kind: z.literal('SandboxTemplate'),
  metadata,
  spec: z.strictObject({
    podTemplate: z.strictObject({
      metadata: z.strictObject({ labels: strings.optional(), annotations: strings.optional() }).optional(),
      // Checked as the spec of a pod.
      spec: z.looseObject({ containers: z.array(z.looseObject({ name })).min(1) }),
    }),
    networkPolicyManagement: z.enum(['Managed', 'Unmanaged']).optional(),
    envVarsInjectionPolicy: z.enum(['Allowed', 'Overrides', 'Disallowed']).optional(),
  }),
})

export const sandboxWarmPool = z.strictObject({
  apiVersion,
  kind: z.literal('SandboxWarmPool'),
  metadata,
  spec: z.strictObject({
    replicas: z.number().int().min(0),
    sandboxTemplateRef: z.strictObject({ name }),
    updateStrategy: z.strictObject({ type: z.enum(['Recreate', 'OnReplenish']) }).optional(),
  }),
})

export const sandboxClaim = z.strictObject({
  apiVersion,
  kind: z.literal('SandboxClaim'),
  metadata,
  spec: z.strictObject({
    warmPoolRef: z.strictObject({ name }),
    lifecycle: z
      .strictObject({
        // Kubernetes stores whole seconds.
        shutdownTime: z
          .string()
          .regex(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/)
          .optional(),
        ttlSecondsAfterFinished: z.number().int().min(0).optional(),
        shutdownPolicy: z.enum(['Delete', 'DeleteForeground', 'Retain']).optional(),
      })
      .optional(),
    additionalPodMetadata: z
      .strictObject({ labels: strings.optional(), annotations: strings.optional() })
      .optional(),
  }),
})
