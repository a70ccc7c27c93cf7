/**
 * Common options of all verbs for a server: its address, its token, and the session.
 */
import type { Command } from 'commander'
import { SandboxError } from '../../base/errors.js'
import type { Files } from '../../calls/index.js'
import { tokenOf } from '../values.js'

export interface ServerOptions {
  url?: string
  tokenFile?: string
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
    .option('--session <id>', 'the session whose files to use (default: default)')
}

/** Calls a function with the files of a session on a server. */
export async function useFiles<T>(
  { url = process.env.NACRE_URL ?? DEFAULT_URL, tokenFile, session = 'default' }: ServerOptions,
  use: (files: Files) => Promise<T>,
): Promise<T> {
  const { SandboxClient } = await import('../../backends/http/client.js')
  const { refusalCode } = await import('../../backends/http/failure.js')
  const token = tokenOf(tokenFile)
  await using client = new SandboxClient({ url, token })
  const found = await client.getSession(session).catch((error) => {
    const flags = FLAGS.get(refusalCode(error) ?? error.code)
    if (flags === undefined) throw error
    throw new SandboxError(error.code, `${error.message} (${flags})`, { cause: error })
  })
  if (found === null) throw new SandboxError('SESSION_NOT_FOUND', `there is no session '${session}'`)
  return await use(found.files)
}
