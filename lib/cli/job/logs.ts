/**
 * `nacre job logs`: the output of a job, byte for byte. With --follow also new output, until the job has ended; then
 * the exit code is the job's. Ctrl-C stops following and does not affect the job.
 */
import type { Command } from 'commander'
import type { JobRead, Jobs } from '../../calls/index.js'
import { followUntilSignal } from '../detach.js'
import { exitCodeOfEnd } from '../failure.js'
import { NOBODY_READS, printJson, write } from '../terminal.js'
import { byteOffset } from '../values.js'
import type { Finish } from '../verb.js'
import { type RootOptions, useJobs, withRoot } from './root.js'

interface Options extends RootOptions {
  follow?: boolean
  cursor?: number
}

export function addLogs(job: Command, finish: Finish): void {
  withRoot(job.command('logs'))
    .description('print the output of a job')
    .argument('<id>')
    .option('-f, --follow', 'continue until the job ends, and exit with its code')
    .option('--cursor <bytes>', 'skip this many bytes', byteOffset)
    .action(async (id: string, options: Options) => {
      finish(await useJobs(options, (jobs) => (options.follow ? follow : readAll)(jobs, id, options)))
    })
}

function follow(jobs: Jobs, id: string, { cursor, json }: Options): Promise<number> {
  return followUntilSignal(id, async (signal) => {
    for await (const piece of jobs.follow(id, cursor, { encoding: 'buffer', signal })) {
      if (!(await show(piece, json))) return NOBODY_READS
    }
    const { exitCode, signal: end } = await jobs.status(id)
    return exitCodeOfEnd(exitCode, end)
  })
}

/** The output so far. */
async function readAll(jobs: Jobs, id: string, { cursor: start = 0, json }: Options): Promise<number> {
  for (let cursor = start; ; ) {
    const piece = await jobs.read(id, cursor, { encoding: 'buffer' })
    if (piece.bytesFetched === 0) return 0
    if (!(await show(piece, json))) return NOBODY_READS
    cursor = piece.cursor
  }
}

/** False when the reader has exited. As JSON bytes are base64, since a piece may end within a character. */
async function show(piece: JobRead<'buffer'>, json: boolean | undefined): Promise<boolean> {
  if (!json) return write(process.stdout, piece.raw)
  const { raw, cursor, status } = piece
  await printJson({ base64: Buffer.from(raw).toString('base64'), cursor, status })
  return !process.stdout.destroyed
}
