/**
 * What a process may use, the size of its terminal, and its user. Whether this machine can enforce a limit, and whether a
 * user exists, is for the engine to find out.
 */
import type { Limits, ProcessOptions } from '../calls/index.js'
import { either, mapped, object, text } from './constructors.js'
import { type Kind, table } from './kind.js'
import { count, processors } from './numbers.js'
import { switchable } from './values.js'

type TerminalSize = Exclude<ProcessOptions['pty'], boolean | undefined>

/** What a process can be. */
export const PROCESS_STATUSES = ['starting', 'running', 'completed', 'failed', 'killed', 'error'] as const

/** Counts cross the boundary as u32. */
const MAX_COUNT = 0xffff_ffff
/** The kernel counts rows and columns in 16 bits. */
const MAX_CELLS = 0xffff
/** 2^32-1 stands for "no change" in setresuid(2). */
const MAX_ID = 0xffff_fffe

/** Of `limits`. */
export const limitOptions = table<Limits>()({
  memory: count(1, Number.MAX_SAFE_INTEGER, 'bytes'),
  cpus: processors,
  pids: count(1, MAX_COUNT),
  openFiles: count(1, MAX_COUNT),
})

/** An object of limits, or undefined when it names none. */
export const limits: Kind<Limits, Limits | undefined> = mapped(
  object(limitOptions, [], 'an object of limits'),
  (limits) => (Object.keys(limits).length > 0 ? limits : undefined),
)

/** Of `pty`: both are required. */
export const terminalOptions = table<TerminalSize>()({ cols: count(1, MAX_CELLS), rows: count(1, MAX_CELLS) })

/** The size of a terminal. */
export const terminal = object(terminalOptions, ['cols', 'rows'])

/** A terminal. By tradition it has 80 columns and 24 rows. */
export const pty = switchable(terminal, { cols: 80, rows: 24 }, 'true for 80 x 24, or { cols, rows }')

/** A user: a name, or both numeric ids. */
export const user = either(
  mapped(
    text((name) => name !== '' && !/[\0:\n]/.test(name), 'must be the name of a user or { uid, gid }'),
    (name) => ({ name }),
  ),
  (value) => typeof value === 'string',
  object({ uid: count(0, MAX_ID), gid: count(0, MAX_ID) }, ['uid', 'gid']),
  'a name, or { uid, gid }',
)
