/**
 * `nacre` on the command line. The exit code is that of the command or the job; 2 after a usage error, 1 when nacre itself
 * failed.
 */
import type { Command } from 'commander'
import { addCompanionVerbs, runCompat } from './companions.js'
import { printCompletion } from './completion.js'
import { exitCodeOf, report } from './failure.js'
import { helpWordsOf } from './help.js'
import { createProgram } from './program.js'

async function main(): Promise<void> {
  for (const stream of [process.stdout, process.stderr]) stream.on('error', ignoreEnd)
  let code = 0
  const finish = (result: number) => {
    code = result
  }
  const program = createProgram(finish)
  // Loading others takes time, which the verbs of nacre itself do without.
  const words = process.argv.slice(2)
  const isCompleting = words[0] === '__complete'
  if (isCompleting) words.shift()
  const isOwn = program.commands.some((command) => command.name() === words[0])
  if (!isOwn) await addCompanionVerbs(program, finish)
  if (isCompleting) return printCompletion(program, words)
  let verb: Command | undefined
  program.hook('preAction', (_, command) => {
    verb = command
    // Inherited properties are no options.
    Object.setPrototypeOf(command.opts(), null)
  })
  try {
    if (!(await runCompat(process.argv.slice(2)))) {
      const [node = '', main = '', ...given] = process.argv
      await program.parseAsync([node, main, ...helpWordsOf(program, given)])
    }
  } catch (error) {
    code = exitCodeOf(error)
    report(error, process.argv.includes('--json'), verb)
  }
  process.exitCode = code
  // Input without a reader must not keep this program waiting for more of it.
  if (!process.stdin.isTTY) process.stdin.unref?.()
}

/**
 * The reader of the output may exit first, as with `| head`. Without a listener, an error would end the program before
 * the callback of the write can report it.
 */
function ignoreEnd(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EPIPE') process.exitCode = 1
}

void main()
