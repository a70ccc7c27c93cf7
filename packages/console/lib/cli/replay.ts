/** `nacre replay`: plays a recording in the terminal of this program. */
import { createReadStream } from 'node:fs'
import { createGunzip } from 'node:zlib'
import { OptionError, pause } from 'nacre/internal'
import {
  type Command,
  duration,
  type Finish,
  InvalidArgumentError,
  NOBODY_READS,
  onSignals,
  withExamples,
  write,
} from 'nacre/internal/cli'
import { readEvent, readHeader } from '../recording/cast.js'
import { linesOf } from '../recording/lines.js'

interface Options {
  speed: number
  maxPause: number
  print?: boolean
}

const MOST_SPEED = 1000

/** Ends what a program may have switched on: colours, the other screen, reports of the mouse, pasting in brackets. */
const RESET = '\x1b[!p\x1b[0m\x1b[?1049l\x1b[?25h\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l'

export function addReplay(program: Command, finish: Finish): void {
  const verb = program
    .command('replay')
    .description('play a recording: a file of asciicast v3, which may be compressed with gzip')
    .argument('<file>')
    .option('--speed <factor>', 'play so many times as fast', factor, 1)
    .option('--max-pause <time>', 'the longest pause (default: 2s)', duration, 2000)
    .option('--print', 'print everything at once')
    .action(async (file: string, options: Options) => {
      finish(await replay(file, options))
    })
  withExamples(verb, [
    ['nacre replay session-default-0001.cast.gz', 'plays a recording of nacre serve --record'],
    ['nacre replay --speed 4 --max-pause 500ms build.cast', 'plays it faster, with short pauses'],
    ['nacre replay --print build.cast | less -R', 'shows all of it'],
  ])
}

function factor(text: string): number {
  const number = Number(text)
  if (number > 0 && number <= MOST_SPEED) return number
  throw new InvalidArgumentError(`It must be a number above 0, at most ${MOST_SPEED}.`)
}

/** Resolves with the exit code. */
async function replay(file: string, { speed, maxPause, print = false }: Options): Promise<number> {
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
      if (!(await write(process.stdout, data))) return NOBODY_READS
    }
    if (process.stdout.isTTY) await write(process.stdout, RESET)
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
