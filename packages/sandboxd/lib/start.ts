/**
 * The calls that run a program: `Start`, which streams, and `Execute`, which collects.
 */
import { AS_STARTED, type LocalProcess } from 'nacre/internal/server'
import { type RawConfig, readConfig } from './config.js'
import type { ProcessTable } from './process-table.js'
import { eventsOf, type RunEvent } from './run.js'
import type { ProgramOptions, Runtime } from './runtime.js'
import { Refused } from './status.js'

export interface RunRequest {
  config: RawConfig | null
}

export interface StartRequest extends RunRequest {
  pty?: { cols: number; rows: number } | null
}

export type StartEvent = { init: { process_id: number } } | RunEvent

export interface Executed {
  exit_code: number
  stdout: Uint8Array
  stderr: Uint8Array
}

/** The most bytes of output, both streams together, that `Execute` collects. */
export const MAX_EXECUTE_BYTES = 16 * 1024 * 1024

/** The size of a terminal whose size is not given, and the largest that the kernel can count. */
const USUAL_SIZE = { cols: 80, rows: 24 }
const MAX_CELLS = 0xffff

/** Streams the output of a program. Without a reader the program is held back; an early end of the call kills it. */
export async function start(
  runtime: Runtime,
  table: ProcessTable,
  { config, pty }: StartRequest,
  send: (event: StartEvent) => Promise<void>,
  signal: AbortSignal,
): Promise<void> {
  const checked = readConfig(config, runtime.roots)
  const options = { hasInput: true, terminal: pty ? sizeOf(pty, USUAL_SIZE) : undefined, signal }
  const process = await runtime.start(checked, options)
  const id = table.add(process)
  try {
    await send({ init: { process_id: id } })
    for await (const event of eventsOf(process, signal)) await send(event)
  } finally {
    table.remove(id)
    await end(runtime, process)
  }
}

/** Runs a program to its end. It is killed when it prints more than can be collected, and at an early end of the call. */
export async function execute(
  runtime: Runtime,
  { config }: RunRequest,
  signal: AbortSignal,
): Promise<Executed> {
  const checked = readConfig(config, runtime.roots)
  const options: ProgramOptions = { hasInput: false, terminal: undefined, signal }
  const process = await runtime.start(checked, options)
  const stdout: Uint8Array[] = []
  const stderr: Uint8Array[] = []
  let bytes = 0
  let exitCode = 0
  try {
    for await (const event of eventsOf(process, signal)) {
      if ('exit' in event) {
        exitCode = event.exit.exit_code
        continue
      }
      const [list, piece] = 'stdout' in event ? [stdout, event.stdout] : [stderr, event.stderr]
      bytes += piece.length
      if (bytes > MAX_EXECUTE_BYTES)
        throw new Refused(
          'RESOURCE_EXHAUSTED',
          `the program was killed: it printed more than ${MAX_EXECUTE_BYTES} bytes; use Start, which has no limit`,
        )
      list.push(piece)
    }
  } finally {
    await end(runtime, process)
  }
  return { exit_code: exitCode, stdout: Buffer.concat(stdout), stderr: Buffer.concat(stderr) }
}

/** A size with at least one column and row. 0 stands for a number that is not given. */
export function sizeOf(
  { cols, rows }: { cols: number; rows: number },
  usual: { cols: number; rows: number } | undefined,
): { cols: number; rows: number } {
  const size = { cols: cols || (usual?.cols ?? 0), rows: rows || (usual?.rows ?? 0) }
  for (const [name, value] of Object.entries(size)) {
    if (value < 1 || value > MAX_CELLS)
      throw new Refused('INVALID_ARGUMENT', `${name} must be from 1 to ${MAX_CELLS}, not ${value}`)
  }
  return size
}

/** Kills what still runs, and forgets the program. */
async function end(runtime: Runtime, process: LocalProcess): Promise<void> {
  if (process.info.status === 'running') await process.kill(AS_STARTED).catch(() => {})
  runtime.forget(process)
}
