/** `nacre logs`: the output of a process of a server. */
import type { Command } from 'commander'
import type { Process } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { exitCodeOfEnd } from '../failure.js'
import { onSignals } from '../signals.js'
import { NOBODY_READS, note, printable, write } from '../terminal.js'
import { wholeNumber } from '../values.js'
import type { Finish } from '../verb.js'
import { processOf, type ServerOptions, useServer, withServer } from './server.js'

interface Options extends ServerOptions {
  follow?: boolean
  tail?: number
}

const NEWLINE = 0x0a
const streams = { stdout: process.stdout, stderr: process.stderr }

export function addServerLogs(program: Command, finish: Finish): void {
  const logs = withServer(program.command('logs'))
    .description('print the output of a process of a server')
    .argument('<id>', 'the id of the process; see nacre ps')
    .option('-f, --follow', 'continue until the process ends, and exit with its code')
    .option('-n, --tail <lines>', 'only the last lines', wholeNumber)
    .action(async (id: string, options: Options) => {
      finish(await useServer(options, async (client) => print(await processOf(client, id), options)))
    })
  withExamples(logs, [
    ['nacre logs web', 'prints the output so far'],
    ['nacre logs --tail 20 --follow web', 'prints the last 20 lines, and what follows'],
  ])
}

async function print(process: Process, { follow = false, tail }: Options): Promise<number> {
  const stop = new AbortController()
  const ignore = onSignals(() => stop.abort())
  try {
    let cursor = 0
    if (tail !== undefined) {
      const end = await lastLines(process, tail, stop.signal)
      for (const { type, data } of end.pieces) if (!(await write(streams[type], data))) return NOBODY_READS
      cursor = end.cursor
      if (!follow) return 0
    }
    for await (const event of process.output({ encoding: 'buffer', cursor, follow, signal: stop.signal })) {
      if (event.type === 'exit') return follow ? exitCodeOfEnd(event.exitCode, event.signal) : 0
      if (!(await write(streams[event.type], event.data))) return NOBODY_READS
    }
    return 0
  } catch (error) {
    if (!stop.signal.aborted) throw error
    note(`no longer following ${printable(process.id)}, which continues`)
    return 0
  } finally {
    ignore()
  }
}

interface Piece {
  type: 'stdout' | 'stderr'
  data: Uint8Array
  newlines: number
}

/** The last lines of the output so far, and the cursor behind them. Keeps few more in memory. */
async function lastLines(
  process: Process,
  lines: number,
  signal: AbortSignal,
): Promise<{ pieces: Piece[]; cursor: number }> {
  const pieces: Piece[] = []
  let [newlines, cursor] = [0, 0]
  for await (const event of process.output({ encoding: 'buffer', follow: false, signal })) {
    if (event.type === 'exit') break
    const { type, data } = event
    cursor = event.cursor
    const piece = { type, data, newlines: data.reduce((sum, byte) => sum + Number(byte === NEWLINE), 0) }
    pieces.push(piece)
    newlines += piece.newlines
    // The last line may lack its newline.
    while (newlines - (pieces[0]?.newlines ?? 0) > lines) newlines -= pieces.shift()?.newlines ?? 0
  }
  const last = pieces.at(-1)
  const open = last === undefined || last.data.at(-1) === NEWLINE ? 0 : 1
  let extra = newlines + open - lines
  while (pieces[0] !== undefined && pieces[0].newlines < extra) extra -= pieces.shift()?.newlines ?? 0
  const [first] = pieces
  for (; first !== undefined && extra > 0; extra--)
    first.data = first.data.subarray(first.data.indexOf(NEWLINE) + 1)
  return { pieces, cursor }
}
