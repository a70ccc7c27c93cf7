/** The verb that `nacre` adds to its own where this package is installed: `nacre mcp`. */
import type { Command } from 'nacre/internal/cli'
import { defineServer } from '../command.js'

export function addVerbs(program: Command): void {
  defineServer(program.command('mcp'))
}
