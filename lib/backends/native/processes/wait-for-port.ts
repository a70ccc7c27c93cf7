/**
 * Waits until a process serves a port: a process of its tree listens and, if a page is requested, answers.
 *
 * Each check asks the kernel whether the port belongs to the tree. A port that another program has had open all along
 * proves nothing about this process.
 */

import { ignoring } from '../../../base/errors.js'
import type { PortPlan, PortProbe } from '../../../requests/waits.js'
import { connect } from '../ports.js'
import type { ProcessHandle } from './handle.js'
import { httpStatusOn } from './http-probe.js'
import { waitUntil } from './waits.js'

export function waitForPort(handle: ProcessHandle, plan: PortPlan): Promise<void> {
  return waitUntil(handle, describeProbe(plan), plan, (stop) =>
    Promise.race([handle.ended.then(() => false), serves(handle, plan, stop)]),
  )
}

/** Checks once. */
export async function serves(
  { engine, ref, state }: ProcessHandle,
  { port, http }: PortProbe,
  stop: AbortSignal,
): Promise<boolean> {
  if (!(await engine.call((native, id) => native.processListens(id, ref, port)))) return false
  if (http === undefined) return true
  const socket = await ignoring(connect(engine, state.sessionId, port), 'PORT_CLOSED')
  if (socket === undefined) return false
  const status = await httpStatusOn(socket, port, http.path, stop)
  return status !== undefined && status >= http.status.min && status <= http.status.max
}

function describeProbe({ port, http }: PortProbe): string {
  if (http === undefined) return `it listened on port ${port}`
  const { min, max } = http.status
  return `it answered for http://localhost:${port}${http.path} with ${min === max ? min : `${min} to ${max}`}`
}
