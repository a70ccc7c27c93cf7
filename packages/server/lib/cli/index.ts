/** The verb that `nacre` adds to its own where this package is installed: `nacre serve`. */
import type { Command } from 'nacre/internal/cli'
import { addServe } from './serve.js'

export function addVerbs(program: Command): void {
  addServe(program)
}
