/**
 * Common options of all verbs for a server: its address, its token, and the session.
 */
import type { Command } from 'commander'
import { SandboxError, unknownId } from '../../base/errors.js'
import type { SandboxClient } from '../../calls/client.js'
import type { AnySession, Files, Process } from '../../calls/index.js'
import { tokenOf } from '../values.js'

export interface ServerOptions {
  url?: string
  tokenFile?: string
}

export interface SessionOptions extends ServerOptions {
  session?: string
}

const DEFAULT_URL = 'http://127.0.0.1:4747'

const URL_FLAGS = '--url, or $NACRE_URL'

/** What a user can correct after the first request, by the code of the error or of the refusal. */
const FLAGS = new Map([
  ['CONNECTION_FAILED', URL_FLAGS],
  ['NOT_FOUND', URL_FLAGS],
  ['UNAUTHORIZED', '--token-file, or $NACRE_TOKEN'],
])

/** Adds the options. */
export function withServer(command: Command): Command {
  return command
    .option('--url <url>', `the URL of the server (default: $NACRE_URL, or ${DEFAULT_URL})`)
    .option('--token-file <file>', 'a file with the token of the server (default: the token in $NACRE_TOKEN)')
}

/** Adds them for a verb that uses files. */
export function withFiles(command: Command): Command {
  return withServer(command).option('--session <id>', 'the session whose files to use (default: default)')
}

/** Calls a function with the sandbox of a server. */
export async function useServer<T>(
  { url = process.env.NACRE_URL ?? DEFAULT_URL, tokenFile }: ServerOptions,
  use: (client: SandboxClient) => Promise<T>,
): Promise<T> {
  const { SandboxClient } = await import('../../backends/http/client.js')
  const { refusalCode } = await import('../../backends/http/failure.js')
  await using client = new SandboxClient({ url, token: tokenOf(tokenFile) })
  try {
    return await use(client)
  } catch (error) {
    const { code, message } = error as SandboxError
    const flags = FLAGS.get(refusalCode(error) ?? code)
    throw flags === undefined ? error : new SandboxError(code, `${message} (${flags})`, { cause: error })
  }
}

/** Calls a function with the files of a session on a server. */
export function useFiles<T>(options: SessionOptions, use: (files: Files) => Promise<T>): Promise<T> {
  return useServer(options, async (client) => use((await sessionOf(client, options)).files))
}

/** Rejects with SESSION_NOT_FOUND. */
export async function sessionOf(
  client: SandboxClient,
  { session = 'default' }: SessionOptions,
): Promise<AnySession> {
  const found = await client.getSession(session)
  if (found === null) throw unknownId('session', session)
  return found
}

/** Rejects with PROCESS_NOT_FOUND. */
export async function processOf(client: SandboxClient, id: string): Promise<Process> {
  const process = await client.getProcess(id)
  if (process === null)
    throw new SandboxError('PROCESS_NOT_FOUND', `the server has no process '${id}': see nacre ps --all`)
  return process
}
