/**
 * The calls that a sandbox and its sessions have in common.
 */

import { envChanges } from '../../options/env.js'
import { readArgument } from '../../options/read.js'
import { encodeEnv } from '../../protocol/json.js'
import type { Encoding, ExecResult } from '../../public/index.js'
import { callbackObserver } from '../../run/callbacks.js'
import { ExecStream } from '../../run/exec-stream.js'
import type { RunObserver } from '../native/run.js'
import type { Begun } from './begun.js'
import type { Connection, Request } from './connection.js'
import { planRemoteExec, planRemoteProcess } from './plan.js'
import { RemoteProcess, type WireProcess } from './process.js'
import { remoteRun } from './remote-run.js'
import { settle } from './settle.js'
import { startRemote } from './start.js'
import type { Turns } from './turns.js'
import { resultOf, type WireResult } from './wire.js'

/** The server, and what this client has begun there. */
export interface Place {
  connection: Connection
  begun: Begun
  turns: Turns
}

const SILENT: RunObserver = { start() {}, output: () => false, end() {} }

/** One request is enough, unless something is to happen while the command runs. */
export async function exec(
  place: Place,
  command: unknown,
  options: unknown,
  sessionId?: string,
): Promise<ExecResult<Encoding>> {
  const plan = planRemoteExec(command, options, { sessionId, owner: 'exec', isStream: false })
  if (plan.isLive) return remoteRun(place, plan)(callbackObserver(plan) ?? SILENT).outcome
  const { body, encoding } = plan
  return settle(plan, place.connection.logger, async () => {
    const request = { path: '/v1/exec', body, encoding, waits: true }
    const { result } = await inTurn<{ result: WireResult }>(place, plan.request.sessionId, request)
    return resultOf(result, encoding)
  })
}

export function execStream(place: Place, command: unknown, options: unknown, sessionId?: string): ExecStream {
  const plan = planRemoteExec(command, options, { sessionId, owner: 'execStream', isStream: true })
  return new ExecStream(plan, remoteRun(place, plan))
}

export function startProcess(
  { connection, begun }: Place,
  command: unknown,
  options: unknown,
  sessionId?: string,
): Promise<RemoteProcess> {
  const plan = planRemoteProcess(command, options, sessionId)
  const start = () => {
    const request = connection.call<WireProcess>({ path: '/v1/processes', body: plan.body, waits: true })
    return begun.starting(request.then((info) => begun.addProcess(info)))
  }
  return startRemote(connection, plan, start, (info) => new RemoteProcess(connection, info))
}

export async function setEnv(place: Place, vars: unknown, sessionId: string): Promise<void> {
  const body = { vars: encodeEnv(readArgument(envChanges, vars, 'vars')), sessionId }
  await inTurn(place, sessionId, { path: '/v1/env', body, waits: true })
}

async function inTurn<T>({ connection, turns }: Place, sessionId: string, request: Request): Promise<T> {
  const turn = turns.take(sessionId)
  try {
    if (turn.begins !== undefined) await turn.begins
    return await connection.call<T>(request)
  } finally {
    turn.end()
  }
}
