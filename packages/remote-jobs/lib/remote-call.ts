/**
 * One call to the remote sandbox: a command line that survives transport, and the lines of the reply.
 *
 * The implementation of `executeCommand` may split the command line into words itself or pass it to a shell. So it is `sh
 * -c '<fixed text>'` and words of plain characters: paths and contents are base64.
 */

import { engineError } from 'nacre/internal'
import type { CommandBackend } from './public.js'
import { refuseIfTold } from './refusals.js'
import { SCRIPT, scriptName } from './script/script.js'

export interface RemotePlace {
  backend: CommandBackend
  /** The absolute directory of all jobs. */
  root: string
  /** Maximum seconds for a call. */
  callTimeout: number
}

/** Base64 characters in one command line: Linux allows 128 KiB per argument, and a wrapper may add to it. */
export const MOST_INLINE = 90_000
/** Bytes of one part, a multiple of 3, so that each part is complete base64. */
const PART_BYTES = (MOST_INLINE / 4) * 3

/** Runs the script if it exists and belongs to this user: another user's file could contain anything. */
const run = () =>
  `r=$(printf %s "$0"|base64 -d);s=$r/${scriptName()};if [ -f "$s" ]&&[ -O "$s" ]&&[ -O "$r" ]&&[ ! -L "\${r%/}" ];then exec sh "$s" "$r" "$@";fi;echo "<nacre";echo upload;echo "nacre>"`

/** Appends bytes to a file, and renames it if there is a third word. */
const STORE = `r=$(printf %s "$0"|base64 -d);umask 077;echo "<nacre";mkdir -p "$r";if [ ! -O "$r" ]||[ -L "\${r%/}" ];then echo "refused STATE_DIR_UNAVAILABLE not-ours";elif printf %s "$2"|base64 -d >>"$r/$1"&&{ [ -z "$3" ]||mv "$r/$1" "$r/$3";};then echo stored;else echo "refused STATE_DIR_UNAVAILABLE no-room";fi 2>/dev/null;echo "nacre>"`

/**
 * Calls the script with a verb, a job and further arguments. The first call that does not find the script uploads it.
 * Throws SandboxError.
 */
export async function call(place: RemotePlace, ...words: Array<string | number>): Promise<string[]> {
  const subject = String(words[1] ?? place.root)
  const reply = await execute(place, run(), words, subject)
  if (reply[0] !== 'upload') return reply
  await store(place, `@part-${mark()}`, Buffer.from(SCRIPT), scriptName())
  const second = await execute(place, run(), words, subject)
  if (second[0] !== 'upload') return second
  throw engineError(
    'STATE_DIR_UNAVAILABLE',
    `${scriptName()} disappears from ${place.root} after its upload; see jobsRoot`,
  )
}

/** Writes bytes of any length to a file of the root. With a final name, renames it there once it is complete. */
export async function store(place: RemotePlace, name: string, bytes: Buffer, lastName = ''): Promise<void> {
  for (let start = 0; start < bytes.length; start += PART_BYTES) {
    const part = bytes.subarray(start, start + PART_BYTES).toString('base64')
    const isLast = start + PART_BYTES >= bytes.length
    await execute(place, STORE, isLast && lastName ? [name, part, lastName] : [name, part], place.root)
  }
}

/** A unique word. */
export function mark(): string {
  return crypto.randomUUID().replaceAll('-', '')
}

async function execute(
  { backend, root, callTimeout }: RemotePlace,
  text: string,
  words: Array<string | number>,
  subject: string,
): Promise<string[]> {
  const line = [`sh -c '${text}'`, Buffer.from(root).toString('base64'), ...words].join(' ')
  let reply: { result?: unknown } | undefined
  try {
    reply = await backend.process.executeCommand(line, undefined, undefined, callTimeout)
  } catch (cause) {
    const why = cause instanceof Error ? cause.message : String(cause)
    throw engineError('ENGINE_ERROR', `the remote sandbox did not run a command: ${why}`, { cause })
  }
  const lines = readReply(String(reply?.result ?? ''))
  if (lines === undefined) {
    const shown = JSON.stringify(String(reply?.result ?? '').slice(-200))
    throw engineError('ENGINE_ERROR', `the remote sandbox did not return a complete reply, but ${shown}`)
  }
  refuseIfTold(lines, subject)
  return lines
}

/** The lines between the two marks; undefined if a mark is missing. */
export function readReply(text: string): string[] | undefined {
  const lines = text.split(/\r?\n/).map((line) => line.trim())
  const begin = lines.indexOf('<nacre')
  const end = lines.lastIndexOf('nacre>')
  return begin < 0 || end < begin ? undefined : lines.slice(begin + 1, end)
}
