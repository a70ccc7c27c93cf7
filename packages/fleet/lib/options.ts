/** The options of `@nacre/fleet`. */

import { type Call, kinds } from 'nacre/internal'
import { dnsLabel, kubeConfig, labels, sandboxId } from './kinds.js'
import type {
  FleetCallOptions,
  FleetCreateOptions,
  FleetKubernetes,
  FleetOptions,
  FleetRouter,
} from './public.js'

const ttl = kinds.count(1000, kinds.MAX_MILLISECONDS, 'ms')

/** Of `kubernetes.router`. */
export const fleetRouterOptions = kinds.table<FleetRouter>()({
  url: kinds.serverUrl,
  headers: kinds.headers,
})

/** Of `kubernetes`. */
export const fleetKubernetesOptions = kinds.table<FleetKubernetes>()({
  namespace: { ...dnsLabel, default: 'default' },
  warmPool: dnsLabel,
  kubeConfig,
  router: kinds.object(fleetRouterOptions, ['url']),
  port: { ...kinds.portNumber, default: 3000 },
})

/** Of `new SandboxFleet`. */
export const fleetOptions = kinds.table<FleetOptions>()({
  kubernetes: kinds.object(fleetKubernetesOptions, ['warmPool']),
  token: kinds.token,
  ttl: { ...ttl, default: 600_000 },
  createTimeout: { ...kinds.positiveMilliseconds, default: 120_000 },
  requestTimeout: { ...kinds.positiveMilliseconds, default: 30_000 },
  reconnectTimeout: { ...kinds.milliseconds, default: 30_000 },
  logger: kinds.logger,
})

/** Of `fleet.create`. */
export const fleetCreateOptions = kinds.table<FleetCreateOptions>()({
  id: sandboxId,
  ttl,
  labels,
  timeout: kinds.positiveMilliseconds,
  signal: kinds.abortSignal,
})

/** Of `fleet.get`, `fleet.list` and `fleet.delete`. */
export const fleetCallOptions = kinds.table<FleetCallOptions>()({ signal: kinds.abortSignal })

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'new SandboxFleet', table: fleetOptions, local: true },
  { name: 'kubernetes of a fleet', table: fleetKubernetesOptions, local: true },
  { name: 'kubernetes.router of a fleet', table: fleetRouterOptions, local: true },
  { name: 'fleet.create', table: fleetCreateOptions, local: true },
  { name: 'fleet.get, fleet.list and fleet.delete', table: fleetCallOptions, local: true },
]
