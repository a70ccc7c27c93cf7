/** The options of `nacre/fleet`. */

import { object } from '../schema/constructors.js'
import { headers, portNumber, serverUrl, token } from '../schema/http.js'
import { option } from '../schema/kind.js'
import { dnsLabel, kubeConfig, labels, sandboxId } from '../schema/kubernetes.js'
import { count, MAX_MILLISECONDS, milliseconds, pause } from '../schema/numbers.js'
import { abortSignal } from '../schema/signals.js'
import { logger } from '../schema/values.js'

const ttl = count(1000, MAX_MILLISECONDS, 'ms')

/** Of `kubernetes.router`. */
export const fleetRouterOptions = {
  url: option(serverUrl, { doc: 'URL of the router.' }),
  headers: option(headers, { doc: 'Headers to add for the router itself.', otherwise: 'none' }),
}

/** Of `kubernetes`. */
export const fleetKubernetesOptions = {
  namespace: option(dnsLabel, { doc: 'The namespace of the claims.', default: 'default' }),
  warmPool: option(dnsLabel, { doc: 'The SandboxWarmPool that provides the sandboxes.' }),
  kubeConfig: option(kubeConfig, {
    doc: 'How to reach the API server.',
    otherwise: 'the result of `loadFromDefault`',
  }),
  router: option(object(fleetRouterOptions), {
    doc: 'The router that forwards requests to the pods.',
    otherwise: 'none: requests go directly to the pods',
  }),
  port: option(portNumber, { doc: "The port of nacre's server in the pods.", default: 3000 }),
}

/** Of `new SandboxFleet`. */
export const fleetOptions = {
  kubernetes: option(object(fleetKubernetesOptions), {
    doc: 'Runs sandboxes as pods of agent-sandbox.',
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
  id: option(sandboxId, {
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
