/**
 * Requests a page from a local server and returns the response status.
 *
 * node:http is loaded by the first probe: loading it takes about 30 ms on Node 22.
 */

import type { RequestOptions } from 'node:http'
import type { Socket } from 'node:net'
import { onAbort } from '../../../base/abort.js'
import { clearTimeout, setTimeout } from '../../../base/timers.js'

/** 127.0.0.1 first. If nothing accepts there, the server may only listen on ::1. */
const ADDRESSES = ['127.0.0.1', '::1']

/** Milliseconds before a server that has not responded is asked again. */
const ANSWER_MS = 5000

/** The response status; undefined if there was no response. Redirects are not followed. */
export async function httpStatus(port: number, path: string, stop: AbortSignal): Promise<number | undefined> {
  for (const host of ADDRESSES) {
    const answer = await ask({ host, port, path }, stop)
    if (answer !== 'unreachable') return answer
    if (stop.aborted) return undefined
  }
  return undefined
}

/** The same on a connection to the server, which ends with it. */
export async function httpStatusOn(
  socket: Socket,
  port: number,
  path: string,
  stop: AbortSignal,
): Promise<number | undefined> {
  const answer = await ask({ host: 'localhost', port, path, createConnection: () => socket }, stop)
  socket.destroy()
  return answer === 'unreachable' ? undefined : answer
}

function ask(options: RequestOptions, stop: AbortSignal): Promise<number | 'unreachable' | undefined> {
  const { request } = process.getBuiltinModule('node:http')
  return new Promise((resolve) => {
    const { createConnection } = options
    // An agent would make a connection of its own.
    const agent = createConnection === undefined ? { agent: false } : {}
    const asked = request({ ...options, ...agent, headers: { connection: 'close' } })
    const end = (answer: number | 'unreachable' | undefined) => {
      clearTimeout(timer)
      release()
      asked.destroy()
      resolve(answer)
    }
    const timer = setTimeout(() => end(undefined), ANSWER_MS)
    const release = onAbort(stop, () => end(undefined))
    asked.on('response', ({ statusCode }) => end(statusCode))
    asked.on('error', (error: NodeJS.ErrnoException) => end(isUnreachable(error) ? 'unreachable' : undefined))
    asked.end()
  })
}

/** True if nothing listens at this address; Bun has its own code for that. */
function isUnreachable({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ECONNREFUSED' || code === 'ConnectionRefused' || code === 'EADDRNOTAVAIL'
}
