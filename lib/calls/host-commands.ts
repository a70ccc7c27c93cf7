/** Commands of a sandbox that are functions of this program. */

import { invalidOption } from '../base/errors.js'
import type { Kind } from '../schema/kind.js'
import { quote, readEntries } from '../schema/read.js'
import { callback } from '../schema/values.js'

/** Where a host command writes to. */
export interface HostCommandOutput {
  /** Resolves once the bytes are on their way to the caller. Await it, so that a slow reader slows the function down. */
  write(data: string | Uint8Array): Promise<void>
}

/** A call of a host command by a program of the sandbox. */
export interface HostCommandCall {
  /** The arguments after the name. Bytes that are not UTF-8 are U+FFFD. */
  args: string[]
  /** The environment of the caller. */
  env: Record<string, string>
  /** The directory of the caller. */
  cwd: string
  /** The session of the caller. */
  sessionId: string
  /** Its standard input. Only what the loop asks for is read, at most 64 KiB at a time. */
  stdin: AsyncIterableIterator<Uint8Array>
  /** Its standard output. */
  stdout: HostCommandOutput
  /** Its standard error. */
  stderr: HostCommandOutput
  /** Aborted when the caller ends before the function: `stdin` and `write` then reject. */
  signal: AbortSignal
}

/**
 * Returns the exit code, 0 to 255. Anything else, and an exception, is 1 with a message on standard error.
 *
 * It must not wait for another command of the caller's session, which waits for this one. The caller can be any program in the
 * sandbox, and chooses what it sends.
 */
export type HostCommand = (call: HostCommandCall) => number | Promise<number>

/** Most commands of a sandbox. */
const MOST = 256

/** Reserved words and builtins of bash, which a program in PATH does not replace, and the program of host commands. */
const TAKEN = new Set(
  `. .. alias bg bind break builtin caller case cd command compgen complete compopt continue coproc declare dirs disown do
  done echo elif else enable esac eval exec exit export false fc fg fi for function getopts hash help history if in jobs kill
  let local logout mapfile nacre nacre-command popd printf pushd pwd read readarray readonly return select set shift shopt
  source suspend test then time times trap true type typeset ulimit umask unalias unset until wait while`.split(
    /\s+/,
  ),
)

export const hostCommands: Kind<Record<string, HostCommand>, ReadonlyMap<string, HostCommand>> = {
  read(value, name) {
    const entries = readEntries(value, name, { rule: 'must be an object of functions by name' })
    if (entries.length > MOST)
      throw invalidOption(`${name} has ${entries.length} commands, and at most ${MOST} work`)
    return new Map(
      entries.map(([key, item]) => {
        if (!/^[A-Za-z0-9._-]{1,64}$/.test(key))
          throw invalidOption(
            `${name} has the name ${quote(key)}: a name has 1 to 64 characters of A-Z a-z 0-9 . _ -`,
          )
        if (TAKEN.has(key))
          throw invalidOption(`${name} has the name ${quote(key)}, which is taken by bash or nacre`)
        return [key, callback.read(item, `${name}.${key}`) as unknown as HostCommand]
      }),
    )
  },
  bounds: 'functions by name; 1 to 64 of A-Z a-z 0-9 . _ -',
}
