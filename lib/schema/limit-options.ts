/** What a process may use, and the size of its terminal. */

import { count } from './kinds.js'
import { type Kind, option } from './option.js'
import { processors } from './processors.js'

/** Counts cross the boundary as u32. */
const MAX_COUNT = 0xffff_ffff
/** The kernel counts rows and columns in 16 bits. */
const MAX_CELLS = 0xffff

const fraction: Kind<number> = {
  read: processors,
  json: { schema: { type: 'number', exclusiveMinimum: 0 } },
  bounds: 'more than 0',
}

export const limitOptions = {
  memory: option(count(1, Number.MAX_SAFE_INTEGER, 'bytes'), {
    doc: 'Maximum memory.',
    otherwise: 'no limit',
  }),
  cpus: option(fraction, { doc: 'Maximum number of processors; 0.5 is half of one.', otherwise: 'no limit' }),
  pids: option(count(1, MAX_COUNT), {
    doc: 'Maximum number of processes and threads.',
    otherwise: 'no limit',
  }),
  openFiles: option(count(1, MAX_COUNT), {
    doc: 'Maximum number of open file descriptors per process.',
    otherwise: 'no limit',
  }),
}

export const terminalOptions = {
  cols: option(count(1, MAX_CELLS), { doc: 'Columns.' }),
  rows: option(count(1, MAX_CELLS), { doc: 'Rows.' }),
}
