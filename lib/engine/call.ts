/** Calls of short programs: the command line of a container engine. */

import { onAbort } from '../base/abort.js'
import { childProcess } from '../base/builtin.js'
import { clearTimeout, setTimeout } from '../base/timers.js'
import { killGroup, LAST_WORDS_MS } from './group.js'

/** Characters of each output that are read. An engine that prints more is killed. */
const MOST_CHARACTERS = 4 * 1024 * 1024

export interface Answer {
  isOk: boolean
  /** Null if it did not end by itself. */
  exitCode: number | null
  isLate: boolean
  stdout: string
  stderr: string
}

export interface CallOptions {
  env: NodeJS.ProcessEnv
  /** Milliseconds after which the program is killed. */
  timeout: number
  signal?: AbortSignal | undefined
  /** Whether its input stays open until it ends, or this process does. Otherwise it is empty. */
  hasLifeline?: boolean
}

/**
 * Runs a program until its end. Never rejects: an abort kills the program, and the caller has to look.
 *
 * Programs that it has started may keep its outputs open. They are killed with it after the timeout or an abort. After its own
 * end they go on, and are not waited for.
 */
export function call(
  file: string,
  args: string[],
  { env, timeout, signal, hasLifeline = false }: CallOptions,
): Promise<Answer> {
  return new Promise((resolve) => {
    const child = start(file, args, env)
    if (child instanceof Error)
      return resolve({ isOk: false, exitCode: null, isLate: false, stdout: '', stderr: child.message })
    const read = { stdout: '', stderr: '' }
    let isLate = false
    const settle = (reason = '') => {
      clearTimeout(timer)
      ignore()
      for (const stream of [child.stdin, child.stdout, child.stderr]) stream.destroy()
      const [stdout, stderr] = [read.stdout.trim(), read.stderr.trim()]
      const isOk = reason === '' && child.exitCode === 0
      const isSilent = !isOk && stdout === '' && stderr === ''
      const { exitCode } = child
      resolve({ isOk, exitCode, isLate, stdout, stderr: reason || (isSilent ? endOf(child) : stderr) })
    }
    const kill = (reason: string) => {
      killGroup(child)
      settle(reason)
    }
    const timer = setTimeout(() => {
      isLate = true
      kill(`it did not end within ${timeout} ms`)
    }, timeout)
    const ignore = onAbort(signal, () => kill('it was aborted'))
    for (const name of ['stdout', 'stderr'] as const)
      child[name]
        .setEncoding('utf8')
        .on('error', () => {})
        .on('data', (text: string) => {
          read[name] += text
          if (read[name].length > MOST_CHARACTERS) kill(`it printed more than ${MOST_CHARACTERS} characters`)
        })
    child.once('error', ({ message }) => {
      if (child.pid === undefined) settle(message)
    })
    child.once('exit', () => setTimeout(settle, LAST_WORDS_MS).unref())
    child.once('close', () => settle())
    child.stdin.on('error', () => {})
    if (!hasLifeline) child.stdin.end()
    if (signal?.aborted) kill('it was aborted')
  })
}

/** The system refuses some arguments at once. */
function start(file: string, args: string[], env: NodeJS.ProcessEnv) {
  try {
    return childProcess().spawn(file, args, {
      env,
      detached: process.platform !== 'win32',
      windowsHide: true,
    })
  } catch (error) {
    return error as Error
  }
}

function endOf({ exitCode, signalCode }: { exitCode: number | null; signalCode: string | null }): string {
  return signalCode === null ? `it ended with exit code ${exitCode}` : `it was ended by ${signalCode}`
}

/** The last line of what a program printed on standard error, which has the reason, for a message. */
export function reasonOf({ stderr, isLate }: Answer): string {
  if (isLate) return 'it did not end in time'
  return (stderr.split('\n').findLast((line) => line.trim() !== '') ?? 'it gave no reason')
    .trim()
    .slice(0, 500)
}
