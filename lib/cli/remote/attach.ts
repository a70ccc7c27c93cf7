/** `nacre attach`: shows the terminal of a process of a server, and types into it. */
import os from 'node:os'
import type { Command } from 'commander'
import { invalidOption } from '../../base/errors.js'
import type { Process } from '../../calls/index.js'
import { withExamples } from '../examples.js'
import { connect, exitCodeOfProcess, terminalSize } from '../exec-terminal.js'
import { NOBODY_READS, note, printable, write } from '../terminal.js'
import type { Finish } from '../verb.js'
import { processOf, type ServerOptions, useServer, withServer } from './server.js'

interface Options extends ServerOptions {
  readOnly?: boolean
}

/** Ctrl-]: leaves, as in telnet. */
const LEAVE = 0x1d

export function addAttach(program: Command, finish: Finish): void {
  const attach = withServer(program.command('attach'))
    .description('show the terminal of a process of a server, and type into it; Ctrl-] leaves')
    .argument('<id>', 'the id of the process; see nacre ps')
    .option('--read-only', 'only look: others may type, and the size stays')
    .action(async (id: string, options: Options) => {
      finish(await useServer(options, async (client) => attachTo(await processOf(client, id), options)))
    })
  withExamples(attach, [
    ['nacre attach login', 'nobody else can type meanwhile'],
    ['nacre attach --read-only login', 'only shows it'],
  ])
}

/** Resolves with the exit code of the process, or with 0 when the user leaves. */
async function attachTo(process: Process, { readOnly = false }: Options): Promise<number> {
  if (process.terminal === null)
    throw invalidOption(`${printable(process.id)} has no terminal: see nacre logs`)
  const leave = new AbortController()
  const hold = readOnly
    ? undefined
    : await process.hold(`${os.userInfo().username} at a terminal`.slice(0, 100))
  const release = connect(hold?.held, {
    onLeave: () => leave.abort(),
    isLeave: (data) => data.includes(LEAVE),
  })
  try {
    // A program that draws on the whole screen draws it again.
    const { cols, rows } = terminalSize()
    await hold?.held.resize(cols, rows)
    for await (const event of process.output({ encoding: 'buffer', signal: leave.signal }))
      if (event.type !== 'exit' && !(await write(globalThis.process.stdout, event.data))) return NOBODY_READS
    return exitCodeOfProcess(await process.waitForExit())
  } catch (error) {
    if (!leave.signal.aborted) throw error
    note(`left ${printable(process.id)}, which continues`)
    return 0
  } finally {
    release()
    await hold?.release()
  }
}
