#!/usr/bin/env node
/** The entry of `nacre-mcp`. */
import { VERSION } from 'nacre/internal'
import { Command, exitCodeOf, nearSuggestions, report } from 'nacre/internal/cli'
import { defineServer } from './command.js'

// The client may have closed its ends.
for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
const program = defineServer(new Command('nacre-mcp'))
  .version(VERSION, '-V, --version')
  .exitOverride()
  .showHelpAfterError('(add --help for the options)')
  .configureOutput(nearSuggestions)
let code = 0
try {
  await program.parseAsync()
} catch (error) {
  code = exitCodeOf(error)
  report(error, false, program)
}
process.exit(code)
