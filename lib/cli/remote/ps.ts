/** `nacre ps`: the processes of a server, and the commands that run in its sessions. */
import type { Command } from 'commander'
import type { SandboxClient } from '../../calls/client.js'
import { withExamples } from '../examples.js'
import { printTable, short, timeText } from '../table.js'
import { printable, printJson } from '../terminal.js'
import { type ServerOptions, useServer, withServer } from './server.js'

interface Options extends ServerOptions {
  all?: true
  json?: true
}

interface Row {
  id: string
  sessionId: string
  /** 'command' for one of a session. */
  kind: 'command' | 'process' | 'terminal'
  status: string
  startTime: Date | null
  heldBy: string | null
  command: string
}

export function addPs(program: Command): void {
  const ps = withServer(program.command('ps'))
    .description('list what runs on a server: processes, and commands of sessions')
    .option('-a, --all', 'also processes that have ended')
    .option('--json', 'print JSON')
    .action(async (options: Options) => {
      const rows = await useServer(options, (client) => rowsOf(client, options.all ?? false))
      if (options.json) return printJson(rows)
      await printTable(['ID', 'SESSION', 'KIND', 'STATUS', 'TIME', 'COMMAND'], rows.map(cellsOf))
    })
  withExamples(ps, [
    ['nacre ps', 'lists what runs'],
    ['nacre ps --all --json --url https://example.com', 'lists ended processes too, as JSON'],
  ])
}

async function rowsOf(client: SandboxClient, hasEnded: boolean): Promise<Row[]> {
  const [sessions, processes] = await Promise.all([client.listSessions(), client.listProcesses()])
  const running = await Promise.all(
    sessions.map(async (session) =>
      (await session.running()).map(
        ({ id, timestamp, heldBy, command }): Row => ({
          ...{ id, sessionId: session.id, kind: 'command' },
          status: timestamp === null ? 'waits' : 'running',
          startTime: timestamp === null ? null : new Date(timestamp),
          ...{ heldBy, command },
        }),
      ),
    ),
  )
  const listed = processes
    .filter(({ status }) => status === 'running' || status === 'starting' || hasEnded)
    .map(({ id, sessionId, terminal, status, startTime, heldBy, command }): Row => {
      const kind = terminal === null ? 'process' : 'terminal'
      return { id, sessionId, kind, status, startTime, heldBy, command }
    })
  return [...running.flat(), ...listed]
}

function cellsOf({ id, sessionId, kind, status, startTime, heldBy, command }: Row): string[] {
  const time = startTime === null ? '-' : timeText(Date.now() - startTime.getTime())
  const held = heldBy === null ? status : `${status}, held by ${printable(heldBy)}`
  return [printable(id), printable(sessionId), kind, held, time, short(command)]
}
