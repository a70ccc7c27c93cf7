/**
 * The routes of agent-sandbox's older runtime, which its clients use by default and through its router. They are the same
 * calls in another form: `/execute`, `/upload`, `/download`, `/list` and `/exists`.
 */
import type { IncomingMessage } from 'node:http'
import { collect } from '@nacre/server/internal'
import { clock, kinds } from 'nacre/internal'
import { listDirectory } from './listing.js'
import { RestRefusal } from './rest-error.js'
import { type Reply, readFile, writePart } from './rest-files.js'
import type { Runtime } from './runtime.js'
import { execute } from './start.js'
import { pathBelowRoot } from './target.js'

/** The most bytes of a request of `/execute`. */
const MAX_BODY_BYTES = 1024 * 1024

/** The exit code of a command that its time limit has ended, as of timeout(1). */
const TIMED_OUT_CODE = 124

const MAX_TIMEOUT_SECONDS = Math.floor(kinds.MAX_MILLISECONDS / 1000)

interface ExecuteRequest {
  command: string
  timeoutSeconds: number | undefined
}

/** The routes by their first segment, with the method of each. */
export const LEGACY: Record<string, 'GET' | 'POST'> = {
  execute: 'POST',
  upload: 'POST',
  download: 'GET',
  list: 'GET',
  exists: 'GET',
}

/** Answers a request. `rest` is what follows the first segment, still encoded. */
export async function answerLegacy(
  runtime: Runtime,
  segment: string,
  rest: string,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<Reply> {
  if (segment === 'execute') return { json: await run(runtime, await requestOf(incoming), signal) }
  if (segment === 'upload') {
    await writePart(runtime, incoming, signal)
    return { json: { message: 'the file was uploaded' } }
  }
  return runtime.inSession(() => look(runtime, segment, rest, incoming, signal))
}

/** Answers what only reads. */
async function look(
  runtime: Runtime,
  segment: string,
  rest: string,
  incoming: IncomingMessage,
  signal: AbortSignal,
): Promise<Reply> {
  const path = pathBelowRoot(rest)
  if (segment === 'exists') return { json: { path: rest, exists: (await runtime.files.stat(path)) !== null } }
  if (segment === 'list') {
    const { entries } = await listDirectory(runtime.files, path)
    const shown = entries.map(({ name, size, type, modified_at }) => ({
      ...{ name, size, type },
      mod_time: Date.parse(modified_at) / 1000,
    }))
    return { json: shown }
  }
  const info = await runtime.files.stat(path)
  if (info?.type === 'directory') throw new RestRefusal('INVALID_ARGUMENT', 'the path is a directory')
  return readFile(runtime.files, path, incoming, signal)
}

/** Runs shell text in the root. */
async function run(runtime: Runtime, { command, timeoutSeconds }: ExecuteRequest, signal: AbortSignal) {
  const late = new AbortController()
  const timer =
    timeoutSeconds === undefined ? undefined : clock.setTimeout(() => late.abort(), timeoutSeconds * 1000)
  try {
    const config = { command: ['/bin/sh', '-c', command], env_vars: {} }
    const either = AbortSignal.any([signal, late.signal])
    const { stdout, stderr, exit_code } = await execute(runtime, { config }, either)
    const [out, err] = [stdout, stderr].map((bytes) => Buffer.from(bytes).toString())
    return { stdout: out, stderr: err, exit_code, timed_out: false }
  } catch (error) {
    if (!late.signal.aborted) throw error
    const message = `the command was killed after ${timeoutSeconds} seconds`
    return { stdout: '', stderr: message, exit_code: TIMED_OUT_CODE, timed_out: true }
  } finally {
    clock.clearTimeout(timer)
  }
}

async function requestOf(incoming: IncomingMessage): Promise<ExecuteRequest> {
  const tooLarge = () => new RestRefusal('INVALID_ARGUMENT', `the body has more than ${MAX_BODY_BYTES} bytes`)
  const bytes = await collect(incoming.iterator({ destroyOnReturn: false }), MAX_BODY_BYTES, tooLarge)
  const body = parsed(bytes.toString())
  const { command, timeout_seconds: seconds } = (body ?? {}) as Record<string, unknown>
  if (typeof command !== 'string' || command === '')
    throw new RestRefusal('INVALID_ARGUMENT', 'the body must be JSON with a command that is not empty')
  if (seconds === undefined || seconds === null) return { command, timeoutSeconds: undefined }
  if (typeof seconds !== 'number' || !(seconds > 0) || seconds > MAX_TIMEOUT_SECONDS)
    throw new RestRefusal(
      'INVALID_ARGUMENT',
      `timeout_seconds must be above 0, at most ${MAX_TIMEOUT_SECONDS}`,
    )
  return { command, timeoutSeconds: seconds }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
