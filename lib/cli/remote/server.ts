/**
 * Common options of all verbs for a server: its address, its token, and the session.
 */
import { readFileSync } from 'node:fs'
import type { Command } from 'commander'
import { OptionError } from '../../base/errors.js'
import type { Files } from '../../public/index.js'

export interface ServerOptions {
  url?: string
  tokenFile?: string
  session?: string
}

const DEFAULT_URL = 'http://127.0.0.1:4747'

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
  const { SandboxError, isCode } = await import('../../base/errors.js')
  const token = tokenFile === undefined ? process.env.NACRE_TOKEN : readToken(tokenFile)
  await using client = new SandboxClient({ url, token })
  const found = await client.getSession(session).catch((error) => {
    if (!isCode(error, 'CONNECTION_FAILED')) throw error
    const message = `${error.message} (--url, or $NACRE_URL)`
    throw new SandboxError('CONNECTION_FAILED', message, { cause: error })
  })
  if (found === null) throw new SandboxError('SESSION_NOT_FOUND', `there is no session '${session}'`)
  return await use(found.files)
}

function readToken(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `--token-file ${file} cannot be read: ${code}`, { cause })
  }
}
