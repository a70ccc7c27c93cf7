/** `nacre serve --record`: what the companion package `@nacre/console` does. */
import type { Sandbox, SandboxOptions } from 'nacre'
import { redaction } from 'nacre/internal'
import { flags, network, OptionError, printing } from 'nacre/internal/cli'
import { isNotInstalled, notInstalled } from 'nacre/internal/server'

export interface RecordingFlags {
  record?: string
  recordLimit?: number
  redactFile?: string
  tokenFile?: string
}

export interface Recording {
  /** Stores what has happened so far. */
  close(): Promise<void>
}

const NAME = '@nacre/console'

/**
 * The rules of the sandbox. Commands may not see the recordings, what is never recorded, and the token. Throws OptionError for a flag
 * without --record.
 */
export function isolationFor({
  record,
  recordLimit,
  redactFile,
  tokenFile,
  ...others
}: RecordingFlags & network.IsolationFlags): Pick<SandboxOptions, 'isolation' | 'isolationFile'> {
  if (record === undefined && (recordLimit ?? redactFile) !== undefined)
    throw new OptionError('INVALID_OPTION', '--record-limit and --redact-file need --record')
  return network.isolationOf(others, {
    // What does not exist cannot be hidden.
    '--record': record && flags.ownDirectory('--record', record),
    '--redact-file': redactFile,
    '--token-file': tokenFile,
  })
}

/** What is never recorded. */
export function unrecorded({ redactFile }: RecordingFlags, token: string | undefined): string[] {
  const given = [...flags.secretsIn(redactFile), ...(token === undefined ? [] : [token])]
  return [...redaction.secretValues(process.env), ...given]
}

/** Starts to record. Undefined without --record. Throws OptionError when the package is not installed. */
export async function openRecording(
  sandbox: Sandbox,
  { record, recordLimit }: RecordingFlags,
  redact: string[],
): Promise<Recording | undefined> {
  if (record === undefined) return undefined
  const recorder = await import(NAME).catch((error) => {
    throw isNotInstalled(NAME, error) ? notInstalled('--record', NAME) : error
  })
  return recorder.record(sandbox, {
    ...{ directory: record, limit: recordLimit, redact },
    logger: printing.stderrLogger,
  })
}
