/** The changes of a workspace, on the command line. */
import type { Change, Sandbox, WorkspaceCommitOptions } from '../calls/index.js'
import { colorsOf, note, printable, printLine, write } from './terminal.js'

/** One line for each change, in the colours of git. */
export async function printChanges(changes: Change[]): Promise<void> {
  const colors = colorsOf(process.stdout)
  const paints = {
    created: colors.green,
    modified: colors.yellow,
    replaced: colors.yellow,
    metadata: colors.yellow,
    deleted: colors.red,
  }
  for (const { type, path, kind } of changes) {
    const name = kind === 'directory' ? `${path}/` : path
    await printLine(paints[type](`${type.padEnd(8)} ${printable(name)}`))
  }
}

/** A patch: byte for byte, except on a terminal, where it has the colours of git. */
export async function printDiff(patch: Uint8Array): Promise<void> {
  if (process.stdout.isTTY !== true) return void (await write(process.stdout, patch))
  await printPatch(new TextDecoder().decode(patch))
}

/** A part of a patch, for a person. */
export async function printPatch(patch: string): Promise<void> {
  const { bold, cyan, green, red } = colorsOf(process.stdout)
  const paints: [string, (line: string) => string][] = [
    ['diff --git ', bold],
    ['@@', cyan],
    ['+', green],
    ['-', red],
  ]
  // A program wrote the content, which must not drive the terminal. Tabs are harmless.
  const shown = (line: string) => line.split('\t').map(printable).join('\t')
  for (const line of patch.replace(/\n$/, '').split('\n')) {
    const [, paint = (text: string) => text] = paints.find(([start]) => line.startsWith(start)) ?? []
    await printLine(paint(shown(line)))
  }
}

/** Commits changes, and says how many. */
export async function commitChanges(sandbox: Sandbox, options: WorkspaceCommitOptions): Promise<void> {
  const { applied, skipped } = await sandbox.workspace.commit(options)
  for (const { path, reason } of skipped) note(`skipped ${printable(path)}: ${reason}`)
  note(`committed ${counted(applied)}`)
}

export function counted(changes: number): string {
  return changes === 1 ? '1 change' : `${changes} changes`
}
