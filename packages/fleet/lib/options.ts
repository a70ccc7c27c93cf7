/** The options of `nacre/fleet`. */

import type {
  FleetCallOptions,
  FleetCreateOptions,
  FleetKubernetes,
  FleetOptions,
  FleetRouter,
} from '../public/fleet.js'
import { object } from '../schema/constructors.js'
import { headers, portNumber, serverUrl, token } from '../schema/http.js'
import { table } from '../schema/kind.js'
import { dnsLabel, kubeConfig, labels, sandboxId } from '../schema/kubernetes.js'
import { count, MAX_MILLISECONDS, milliseconds, positiveMilliseconds } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { logger } from '../schema/values.js'

const ttl = count(1000, MAX_MILLISECONDS, 'ms')

/** Of `kubernetes.router`. */
export const fleetRouterOptions = table<FleetRouter>()({
  url: serverUrl,
  headers,
})

/** Of `kubernetes`. */
export const fleetKubernetesOptions = table<FleetKubernetes>()({
  namespace: { ...dnsLabel, default: 'default' },
  warmPool: dnsLabel,
  kubeConfig,
  router: object(fleetRouterOptions, ['url']),
  port: { ...portNumber, default: 3000 },
})

/** Of `new SandboxFleet`. */
export const fleetOptions = table<FleetOptions>()({
  kubernetes: object(fleetKubernetesOptions, ['warmPool']),
  token,
  ttl: { ...ttl, default: 600_000 },
  createTimeout: { ...positiveMilliseconds, default: 120_000 },
  requestTimeout: { ...positiveMilliseconds, default: 30_000 },
  reconnectTimeout: { ...milliseconds, default: 30_000 },
  logger,
})

/** Of `fleet.create`. */
export const fleetCreateOptions = table<FleetCreateOptions>()({
  id: sandboxId,
  ttl,
  labels,
  timeout: positiveMilliseconds,
  signal: abortSignal,
})

/** Of `fleet.get`, `fleet.list` and `fleet.delete`. */
export const fleetCallOptions = table<FleetCallOptions>()({ signal: abortSignal })
