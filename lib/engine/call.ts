/** Calls of short programs: the command line of a container engine. */
import { onAbort } from '../base/abort.js'
import { childProcess } from '../base/builtin.js'

/** Bytes of an output that are read. An engine that prints more is killed. */
const MOST_BYTES = 4 * 1024 * 1024

export interface Answer {
  isOk: boolean
  isLate: boolean
  stdout: string
  stderr: string
}

export interface CallOptions {
  env: NodeJS.ProcessEnv
  /** Milliseconds after which the program is killed. */
  timeout: number
  signal?: AbortSignal | undefined
}

/** Runs a program until its end. Never rejects: an abort kills the program, and the caller has to look. */
export function call(file: string, args: string[], { env, timeout, signal }: CallOptions): Promise<Answer> {
  return new Promise((resolve) => {
    const settings = {
      env,
      timeout,
      killSignal: 'SIGKILL',
      maxBuffer: MOST_BYTES,
      windowsHide: true,
    } as const
    const child = childProcess().execFile(file, args, settings, (error, stdout, stderr) => {
      ignore()
      const reason = error !== null && stderr.trim() === '' && stdout.trim() === '' ? error.message : stderr
      resolve({
        isOk: error === null,
        isLate: error?.killed === true,
        stdout: stdout.trim(),
        stderr: reason.trim(),
      })
    })
    const kill = () => void child.kill('SIGKILL')
    const ignore = onAbort(signal, kill)
    if (signal?.aborted) kill()
    child.stdin?.on('error', () => {}).end()
  })
}

/** The last line of what a program printed on standard error, which has the reason, for a message. */
export function reasonOf({ stderr, isLate }: Answer): string {
  if (isLate) return 'it did not end in time'
  return (stderr.split('\n').findLast((line) => line.trim() !== '') ?? 'it gave no reason')
    .trim()
    .slice(0, 500)
}
