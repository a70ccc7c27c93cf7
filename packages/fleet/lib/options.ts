/** The options of `@nacre/fleet`. */

import {
  abortSignal,
  type Call,
  count,
  headers,
  logger,
  MAX_MILLISECONDS,
  milliseconds,
  object,
  portNumber,
  positiveMilliseconds,
  serverUrl,
  table,
  token,
} from 'nacre/internal'
import { dnsLabel, kubeConfig, labels, sandboxId } from './kinds.js'
import type {
  FleetCallOptions,
  FleetCreateOptions,
  FleetKubernetes,
  FleetOptions,
  FleetRouter,
} from './public.js'

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

/** For the docs. */
export const calls: readonly Call[] = [
  { name: 'new SandboxFleet', table: fleetOptions, local: true },
  { name: 'kubernetes of a fleet', table: fleetKubernetesOptions, local: true },
  { name: 'kubernetes.router of a fleet', table: fleetRouterOptions, local: true },
  { name: 'fleet.create', table: fleetCreateOptions, local: true },
  { name: 'fleet.get, fleet.list and fleet.delete', table: fleetCallOptions, local: true },
]
