/**
 * The server's greeting in the output of a program: the first frame of HTTP/2, which is SETTINGS.
 *
 * A login may print a banner before it. That is skipped: no text contains such a frame. Nothing is sent before the greeting
 * has arrived, since a program that only echoes its input would otherwise look like a server.
 */

import { onAbort } from '../base/abort.js'
import { AbortError, SandboxError } from '../base/errors.js'
import { clearTimeout, setTimeout } from '../base/timers.js'
import type { Program } from './program.js'

/** Bytes that may come before the greeting. */
const MOST_BYTES = 64 * 1024
/** Bytes of them that a message shows. */
const MOST_SHOWN = 2000

/** A frame begins with the three bytes of its length. Its type, its flags and its stream follow. */
const LENGTH_BYTES = 3
const SETTINGS = Uint8Array.of(4, 0, 0, 0, 0, 0)
/** The bytes of one setting. The frame has a few. */
const SETTING_BYTES = 6

/** Where the first frame begins; -1 while there is none. */
export function findGreeting(bytes: Buffer): number {
  let at = bytes.indexOf(SETTINGS)
  for (; at >= 0; at = bytes.indexOf(SETTINGS, at + 1)) {
    const start = at - LENGTH_BYTES
    if (start >= 0 && bytes.readUInt16BE(start) === 0 && bytes.readUInt8(at - 1) % SETTING_BYTES === 0)
      return start
  }
  return -1
}

/**
 * Resolves when the server has answered; its bytes are unread then. Rejects when the program has ended, after
 * `connectTimeout` ms (0 = none), or when the signal is aborted, and does not end the program.
 */
export function awaitGreeting(
  program: Program,
  connectTimeout: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  const { stdout } = program
  return new Promise((resolve, reject) => {
    let bytes = Buffer.alloc(0)
    let isSettled = false
    const settle = (error?: Error) => {
      if (isSettled) return
      isSettled = true
      stdout.off('data', read).pause()
      clearTimeout(timer)
      ignore()
      if (error === undefined) resolve()
      else reject(error)
    }
    const fail = (what: string, remedy: string) => {
      const words = [program.lastWords, bytes.toString('utf8', 0, MOST_SHOWN).trim()].filter(Boolean)
      const printed = words.length === 0 ? 'It printed nothing' : `It printed: ${words.join('\n')}`
      settle(new SandboxError('CONNECTION_FAILED', `${program.name} ${what}: ${remedy}. ${printed}`))
    }
    const read = (piece: Buffer) => {
      bytes = Buffer.concat([bytes, piece])
      const start = findGreeting(bytes)
      if (start >= 0) {
        settle()
        stdout.unshift(bytes.subarray(start))
      } else if (bytes.length > MOST_BYTES)
        fail(`printed more than ${MOST_BYTES} bytes before it answered`, RUN_IT)
    }
    const ignore = onAbort(signal, () => settle(new AbortError(signal?.reason, undefined, 'connecting')))
    const late = () => fail(`did not answer within ${connectTimeout} ms (connectTimeout)`, RUN_IT)
    const timer = connectTimeout === 0 ? undefined : setTimeout(late, connectTimeout)
    // Whether this process stays alive is up to the program's pipes.
    timer?.unref()
    stdout.on('data', read)
    void program.ended.then(() => {
      if (program.failure !== undefined) settle(program.failure)
      else fail(`${program.end} before it answered`, remedyOf(program.exitCode))
    })
  })
}

const RUN_IT = 'it must run `nacre serve --stdio`, and print nothing else'

/** What helps against the exit code of a shell. */
function remedyOf(exitCode: number | null): string {
  if (exitCode === 127) return 'install nacre and @nacre/server there, or give the path of nacre'
  return exitCode === 126 ? 'check that it can be executed there' : RUN_IT
}
