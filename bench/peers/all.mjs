/** The peers that support this runtime, nacre first. */
import * as bunShell from './bun-shell.mjs'
import * as bunSpawn from './bun-spawn.mjs'
import * as childProcess from './child-process.mjs'
import * as execa from './execa.mjs'
import * as fifoEngine from './fifo-engine.mjs'
import * as nacre from './nacre.mjs'

export const peers = [
  nacre,
  childProcess,
  execa,
  fifoEngine,
  ...(globalThis.Bun === undefined ? [] : [bunShell, bunSpawn]),
]
