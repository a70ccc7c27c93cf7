/** `verbose: true`: each command, its duration and its end on standard error. Runs wherever JavaScript does. */

import { durationText } from '../base/failure-text.js'
import type { Encoding, ExecResult } from '../public/index.js'

interface Host {
  process?: { stderr?: { write(text: string): unknown } }
}

/** Prints the command. Returns the function that prints its end. */
export function announce(
  command: string,
): (end: { result: ExecResult<Encoding> } | { error: unknown }) => void {
  const begun = performance.now()
  print(`$ ${command}`)
  return (end) => {
    if ('error' in end) {
      const { shortMessage, message = String(end.error) } = end.error as Partial<Record<string, string>>
      print(`✘ ${shortMessage ?? message} (done in ${durationText(performance.now() - begun)})`)
      return
    }
    const { success, exitCode, signal, duration } = end.result
    const how = signal === null ? `exit code ${exitCode}` : signal
    print(success ? `✔ done in ${durationText(duration)}` : `✘ ${how}, done in ${durationText(duration)}`)
  }
}

function print(line: string): void {
  const time = new Date().toISOString().slice(11, 23)
  ;(globalThis as Host).process?.stderr?.write(`[${time}] ${line}\n`)
}
