/**
 * The life of one program within a call: its output as it is taken, and its end.
 */

import type { LogEvent, ProcessExit } from 'nacre'
import { plans, signalNumber } from 'nacre/internal'
import type { LocalProcess } from 'nacre/internal/server'
import { Refused } from './status.js'

/** The most bytes of one message. */
export const PIECE_BYTES = 64 * 1024

const FIRST_REALTIME = 34

export type RunEvent = { stdout: Uint8Array } | { stderr: Uint8Array } | { exit: { exit_code: number } }

/**
 * The output of a program and, at last, its exit. Output is taken from the program when the next event is asked for, so a
 * slow reader holds the program back.
 */
export async function* eventsOf(process: LocalProcess, signal: AbortSignal): AsyncGenerator<RunEvent> {
  const output = process.output(plans.planLogStream({ encoding: 'buffer', signal }, 'output'))
  for await (const event of output as AsyncIterable<LogEvent<'buffer'>>) {
    if (event.missing !== undefined)
      throw new Refused('DATA_LOSS', `${event.missing} bytes of output were lost: the disk is full`)
    if (event.type === 'exit') {
      yield { exit: { exit_code: exitCodeOf(event) } }
      continue
    }
    for (let start = 0; start < event.data.length; start += PIECE_BYTES) {
      const piece = event.data.subarray(start, start + PIECE_BYTES)
      yield event.type === 'stdout' ? { stdout: piece } : { stderr: piece }
    }
    process.take(event.cursor)
  }
}

/** The exit code as a shell reports it: 128 + n after signal n. */
export function exitCodeOf({ exitCode, signal }: ProcessExit): number {
  if (exitCode !== null) return exitCode
  const number = signal === null ? undefined : signalNumberOf(signal)
  if (number === undefined) throw new Refused('INTERNAL', 'the end of the program is not known')
  return 128 + number
}

/** Real-time signals have no names of their own. */
function signalNumberOf(name: string): number | undefined {
  const [found, offset = '0'] = /^SIGRTMIN(?:\+(\d+))?$/.exec(name) ?? []
  return found === undefined ? signalNumber(name) : FIRST_REALTIME + Number(offset)
}
