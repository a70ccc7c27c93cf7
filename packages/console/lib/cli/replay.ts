/** `nacre replay`: plays a recording in the terminal of this program. */
import { type Command, type Finish, flags, InvalidArgumentError, withExamples } from 'nacre/internal/cli'
import type { Options } from './run-replay.js'

const MOST_SPEED = 1000

export function addReplay(program: Command, finish: Finish): void {
  const verb = program
    .command('replay')
    .description('play a recording: a file of asciicast v3, which may be compressed with gzip')
    .argument('<file>')
    .option('--speed <factor>', 'play so many times as fast', factor, 1)
    .option('--max-pause <time>', 'the longest pause (default: 2s)', flags.duration, 2000)
    .option('--print', 'print everything at once')
    .action(async (file: string, options: Options) => {
      const { replay } = await import('./run-replay.js')
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
