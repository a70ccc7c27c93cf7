/** The options of `nacre/fleet`. */

import type { KubeConfigLike } from '../public/fleet.js'
import type { Logger } from '../public/index.js'
import { clientToken, requestHeaders, serverUrl } from '../schema/client-values.js'
import { dnsLabel, kubeConfig, labels as readLabels, sandboxId } from '../schema/fleet-values.js'
import { abortSignal, count, milliseconds, pause } from '../schema/kinds.js'
import { MAX_MILLISECONDS } from '../schema/numbers.js'
import { type Kind, type OptionTable, type OptionValues, option } from '../schema/option.js'
import { readGroup } from '../schema/read.js'
import { logger as readLogger } from '../schema/values.js'

const url: Kind<string> = { read: serverUrl, bounds: 'an http: or https: URL' }
const headers: Kind<Record<string, string>> = { read: requestHeaders, bounds: 'strings by name' }
const token: Kind<string> = { read: clientToken, bounds: 'printable ASCII without blanks' }
const name: Kind<string> = { read: dnsLabel, bounds: 'a DNS label of at most 63 characters' }
const id: Kind<string> = { read: sandboxId, bounds: 'a DNS label of at most 63 characters' }
const config: Kind<KubeConfigLike> = { read: kubeConfig, bounds: 'a KubeConfig' }
const labels: Kind<Record<string, string>> = { read: readLabels, bounds: 'Kubernetes labels by name' }
const logger: Kind<Logger> = { read: readLogger, bounds: 'an object with debug, info, warn and error' }
const ttl = count(1000, MAX_MILLISECONDS, 'ms')

function group<T extends OptionTable>(table: T): Kind<OptionValues<T>> {
  return { read: (value, path) => readGroup(table, value, path), bounds: 'an object' }
}

/** Of `kubernetes.router`. */
export const fleetRouterOptions = {
  url: option(url, { doc: 'URL of the router.' }),
  headers: option(headers, { doc: 'Headers to add for the router itself.', otherwise: 'none' }),
}

/** Of `kubernetes`. */
export const fleetKubernetesOptions = {
  namespace: option(name, { doc: 'The namespace of the claims.', default: 'default' }),
  warmPool: option(name, { doc: 'The SandboxWarmPool that provides the sandboxes.' }),
  kubeConfig: option(config, {
    doc: 'How to reach the API server.',
    otherwise: 'the result of `loadFromDefault`',
  }),
  router: option(group(fleetRouterOptions), {
    doc: 'The router that forwards requests to the pods.',
    otherwise: 'none: requests go directly to the pods',
  }),
  port: option(count(1, 65_535), { doc: "The port of nacre's server in the pods.", default: 3000 }),
}

/** Of `new SandboxFleet`. */
export const fleetOptions = {
  kubernetes: option(group(fleetKubernetesOptions), {
    doc: 'Runs sandboxes as pods of agent-sandbox. Required.',
  }),
  token: option(token, { doc: "The token that nacre's servers require.", otherwise: 'none' }),
  ttl: option(ttl, { doc: 'Idle time after which a sandbox ends.', default: 600_000 }),
  createTimeout: option(pause, { doc: 'Time limit for a new sandbox to become ready.', default: 120_000 }),
  requestTimeout: option(pause, {
    doc: 'Time limit of requests that neither stream nor wait.',
    default: 30_000,
  }),
  reconnectTimeout: option(milliseconds, {
    doc: 'How long a call tries to reconnect to its sandbox.',
    default: 30_000,
  }),
  logger: option(logger, { doc: 'Receives errors of background work.', otherwise: 'none' }),
}

/** Of `fleet.create`. */
export const fleetCreateOptions = {
  id: option(id, {
    doc: 'The id of the sandbox. If a sandbox already has it, `create` returns that sandbox.',
    otherwise: 'a random id',
  }),
  ttl: option(ttl, {
    doc: 'Idle time after which the sandbox ends.',
    otherwise: "the fleet's",
  }),
  labels: option(labels, { doc: 'Labels of the claim and the pod.', otherwise: 'none' }),
  timeout: option(pause, {
    doc: 'Time limit for the sandbox to become ready.',
    otherwise: "the fleet's",
  }),
  signal: option(abortSignal, {
    doc: 'Aborting cancels the creation and deletes what was created.',
    otherwise: 'none',
  }),
}

/** Of `fleet.get`, `fleet.list` and `fleet.delete`. */
export const fleetCallOptions = {
  signal: option(abortSignal, { doc: 'Aborting ends the call.', otherwise: 'none' }),
}
