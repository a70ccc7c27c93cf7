/** What `nacre replay` does. */
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { OptionError, pause } from 'nacre/internal'
import { onSignals, printing } from 'nacre/internal/cli'
import { readEvent, readHeader } from '../recording/cast.js'
import { linesOf } from '../recording/lines.js'

export interface Options {
  speed: number
  maxPause: number
  print?: boolean
}

/** Ends what a program may have switched on: colours, the other screen, reports of the mouse, pasting in brackets. */
const RESET = '\x1b[!p\x1b[0m\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l'

/** Resolves with the exit code. */
export async function replay(file: string, { speed, maxPause, print = false }: Options): Promise<number> {
  const stop = new AbortController()
  let code = 0
  const ignore = onSignals((signal) => {
    code = signal === 'SIGINT' ? 130 : 143
    stop.abort()
  })
  try {
    for await (const { interval, data } of outputOf(file)) {
      if (!print) await pause(Math.min(interval * 1000, maxPause) / speed, stop.signal)
      if (stop.signal.aborted) break
      if (!(await printing.write(process.stdout, data))) return printing.NOBODY_READS
    }
    if (process.stdout.isTTY) await printing.write(process.stdout, RESET)
    return code
  } finally {
    ignore()
  }
}

/** The output of a recording, and the seconds before it. Throws OptionError. */
async function* outputOf(file: string): AsyncGenerator<{ interval: number; data: string }> {
  let isFirst = true
  let interval = 0
  for await (const line of linesOf(bytesOf(file))) {
    if (isFirst && readHeader(line) === undefined)
      throw new OptionError('INVALID_OPTION', `${file} is no recording in the format asciicast v3`)
    const event = isFirst ? undefined : readEvent(line)
    isFirst = false
    interval += event?.interval ?? 0
    if (event?.code !== 'o') continue
    yield { interval, data: event.data }
    interval = 0
  }
  if (isFirst) throw new OptionError('INVALID_OPTION', `${file} is empty`)
}

/** Throws OptionError. */
async function* bytesOf(file: string): AsyncGenerator<Uint8Array> {
  const stream = createReadStream(file)
  const content = file.endsWith('.gz') ? stream.pipe(createGunzip()) : stream
  // `pipe` does not pass errors on.
  stream.on('error', (error) => content.destroy(error))
  try {
    yield* content
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    throw new OptionError('INVALID_OPTION', `${file} cannot be read: ${code}`, { cause })
  } finally {
    stream.destroy()
  }
}
