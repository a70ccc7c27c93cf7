/** The verbs of recordings, which `nacre` adds to its own where this package is installed: `nacre record` and `nacre replay`. */
import type { Command, Finish } from 'nacre/internal/cli'
import { addRecord } from './record.js'
import { addReplay } from './replay.js'

export function addVerbs(program: Command, finish: Finish): void {
  addRecord(program, finish)
  addReplay(program, finish)
}
