/** What `nacre serve --e2b` and `nacre serve --daytona` run where this package is installed. */
import { exitCodeOf, report } from 'nacre/internal/cli'
import { defineProgram } from './command.js'

/** Runs the program with these words, and ends this process. */
export async function runProgram(name: string, words: string[]): Promise<never> {
  // The reader may have closed its ends.
  for (const stream of [process.stdout, process.stderr]) stream.on('error', () => {})
  const program = defineProgram(name)
  try {
    await program.parseAsync(words, { from: 'user' })
  } catch (error) {
    process.exitCode = exitCodeOf(error)
    report(error, false, program)
  }
  process.exit()
}
