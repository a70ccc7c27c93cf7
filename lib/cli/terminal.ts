/**
 * Output: colours on a terminal only, and no faster than it is read.
 */
import type { Writable } from 'node:stream'
import pc from 'picocolors'

/** The colours for a stream; without a terminal, or with NO_COLOR, the same functions that change nothing. */
export function colorsOf(stream: Writable & { isTTY?: boolean }): ReturnType<typeof pc.createColors> {
  return pc.createColors(stream.isTTY === true && process.env.NO_COLOR === undefined)
}

/** Resolves when the stream has taken it. False when the reader has exited, as with `| head`. Rejects when it is lost. */
export function write(stream: Writable, data: string | Uint8Array): Promise<boolean> {
  return new Promise((resolve, reject) => {
    if (stream.destroyed) return resolve(false)
    stream.write(data, (error) => {
      if (error == null || (error as NodeJS.ErrnoException).code === 'EPIPE') resolve(error == null)
      else reject(new Error(`the output cannot be written: ${error.message}`))
    })
  })
}

export async function printLine(text: string): Promise<void> {
  await write(process.stdout, `${text}\n`)
}

/** A remark on standard error, apart from the output. */
export function note(text: string): void {
  process.stderr.write(`${colorsOf(process.stderr).dim('nacre:')} ${text}\n`)
}

export async function printJson(value: unknown): Promise<void> {
  await printLine(JSON.stringify(value))
}

/** The exit code after the reader has exited: as after SIGPIPE. */
export const NOBODY_READS = 141
