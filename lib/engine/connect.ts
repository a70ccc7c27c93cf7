/** `connectProgram`: a client whose server is behind the pipes of a program. */
import { clientOf } from '../backends/http/client.js'
import { refuseAborted } from '../base/abort.js'
import { OptionError } from '../base/errors.js'
import { type ConnectProgramOptions, connectProgramOptions, type ProgramClient } from '../calls/engine.js'
import { readCommand, showCommand } from '../schema/command.js'
import { readWithDefaults } from '../schema/read.js'
import { ProgramBackend } from './backend.js'
import { awaitGreeting } from './greeting.js'
import { Link } from './link.js'
import { Program } from './program.js'

/** See lib/calls/engine.ts. */
export async function connectProgram(
  argv: readonly string[],
  options?: ConnectProgramOptions,
): Promise<ProgramClient> {
  const values = readWithDefaults(connectProgramOptions, options, 'connectProgram')
  const { cwd, env, signal, connectTimeout, logger } = values
  const words = readProgram(argv)
  refuseAborted(signal, 'connecting')
  const onStderr = values.onStderr as ConnectProgramOptions['onStderr']
  const name = showCommand({ argv: words })
  const program = new Program({ argv: words, name, cwd, env, onStderr, logger })
  await awaitServer(program, connectTimeout, signal)
  const backend = new ProgramBackend(program, new Link(program), values)
  return Object.assign(clientOf(backend), { close: () => backend.close() })
}

/** Resolves when the server has answered. Otherwise the program has ended when it rejects. */
export async function awaitServer(
  program: Program,
  connectTimeout: number,
  signal: AbortSignal | undefined,
): Promise<void> {
  try {
    await awaitGreeting(program, connectTimeout, signal)
  } catch (error) {
    await program.close(0)
    throw error
  }
}

function readProgram(value: unknown): string[] {
  const { argv } = readCommand(value)
  if (argv !== undefined) return argv
  throw new OptionError(
    'INVALID_COMMAND',
    "argv must be a list of arguments, like ['ssh', 'host', 'nacre', 'serve', '--stdio'], not text",
  )
}
