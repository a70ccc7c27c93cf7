/** `verbose: true`: prints commands and processes, their duration and end to stderr. Runs wherever JavaScript does. */

import { durationText } from '../base/failure-text.js'
import { performance } from '../base/timers.js'
import type { Encoding, ExecResult, ProcessExit } from '../calls/index.js'

type EndOfRun = Pick<ProcessExit, 'exitCode' | 'signal'>

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
    if ('error' in end) printFailure(end.error, begun)
    else if (end.result.process) printDetached(end.result.process.id, end.result.duration)
    else printEnd('', end.result, end.result.duration)
  }
}

/** Prints the command of a process. Returns the functions that print why it could not start, and how it ended. */
export function announceProcess(command: string): {
  failed(error: unknown): void
  ended(id: string, exit: ProcessExit): void
} {
  const begun = performance.now()
  print(`$ ${command}`)
  return {
    failed: (error) => printFailure(error, begun),
    ended: (id, exit) => printEnd(`${id}: `, exit, performance.now() - begun),
  }
}

function printFailure(error: unknown, begun: number): void {
  const { shortMessage, message = String(error) } = error as Partial<Record<string, string>>
  print(`✘ ${shortMessage ?? message} (done in ${durationText(performance.now() - begun)})`)
}

function printEnd(name: string, { exitCode, signal }: EndOfRun, duration: number): void {
  const done = `done in ${durationText(duration)}`
  if (exitCode === 0) print(`✔ ${name}${done}`)
  else print(`✘ ${name}${signal === null ? `exit code ${exitCode}` : signal}, ${done}`)
}

function printDetached(id: string, duration: number): void {
  print(`✔ goes on as process ${id} (after ${durationText(duration)})`)
}

function print(line: string): void {
  const time = new Date().toISOString().slice(11, 23)
  ;(globalThis as Host).process?.stderr?.write(`[${time}] ${line}\n`)
}
