/**
 * `nacre workspace`: the workspaces with a name, like those that `nacre try` has kept.
 */
import type { Command } from 'commander'
import { engineError } from '../base/errors.js'
import type { NamedWorkspace, Sandbox } from '../calls/index.js'
import { commitChanges, counted, printChanges, printDiff } from './changes.js'
import { withExamples } from './examples.js'
import { printTable } from './table.js'
import { note, printable, printJson } from './terminal.js'

const PATHS = 'relative to the workspace; with everything below'

export function addWorkspace(program: Command): void {
  const group = program.command('workspace').description('manage copy-on-write workspaces that were kept')
  group
    .command('ls')
    .alias('list')
    .description('list workspaces')
    .option('--json', 'print JSON')
    .action(async ({ json = false }: { json?: boolean }) => {
      const found = await listWorkspaces()
      if (json) return printJson(found)
      await printTable(['ID', 'LAST USE', 'STATE', 'DIRECTORY'], found.map(cellsOf))
    })
  group
    .command('diff')
    .description('print the changes as a patch')
    .argument('<id>')
    .argument('[path...]', PATHS)
    .option('--list', 'print only what has changed')
    .action(async (id: string, paths: string[], { list = false }: { list?: boolean }) => {
      await using sandbox = await open(id)
      if (list) await printChanges(await sandbox.workspace.changes(selected(paths)))
      else await printDiff(await sandbox.workspace.diff(selected(paths)))
    })
  group
    .command('commit')
    .description('make changes real, all of them by default; a workspace without changes is removed')
    .argument('<id>')
    .argument('[path...]', PATHS)
    .option('-f, --force', 'overwrite what other programs have changed meanwhile')
    .action((id: string, paths: string[], { force = false }: { force?: boolean }) =>
      settle(id, (sandbox) => commitChanges(sandbox, { force, ...selected(paths) })),
    )
  group
    .command('discard')
    .description('take changes back, all of them by default; a workspace without changes is removed')
    .argument('<id>')
    .argument('[path...]', PATHS)
    .action((id: string, paths: string[]) =>
      settle(id, async ({ workspace }) => {
        const { discarded } = await workspace.discard(selected(paths))
        note(`discarded ${counted(discarded)}`)
      }),
    )
  group
    .command('rm')
    .description('remove workspaces, with their changes')
    .argument('<id...>')
    .action(async (ids: string[]) => {
      const { Sandbox } = await import('../backends/native/sandbox.js')
      await using sandbox = new Sandbox()
      for (const id of ids) await sandbox.workspace.delete(id)
    })
  withExamples(group, [
    ['nacre workspace ls', 'prints the name, the directory and the last use of each'],
    ['nacre workspace diff try-x7f2 | git apply', 'applies the changes as a patch'],
    ['nacre workspace commit try-x7f2 src', 'makes the changes below src real'],
    ['nacre workspace discard try-x7f2', 'takes all changes back'],
  ])
}

export async function listWorkspaces(stateDir?: string): Promise<NamedWorkspace[]> {
  const { Sandbox } = await import('../backends/native/sandbox.js')
  await using sandbox = new Sandbox({ stateDir })
  return await sandbox.workspace.list()
}

/** The directory of a workspace. Rejects with FILE_NOT_FOUND, and with WORKSPACE_LOST if that is not known. */
export async function directoryOf(id: string): Promise<string> {
  const found = (await listWorkspaces()).find((one) => one.id === id)
  if (found?.path != null) return found.path
  if (found !== undefined)
    throw engineError(
      'WORKSPACE_LOST',
      `the workspace '${id}' cannot be read: it is damaged, or of another version of nacre. Open it with that version, or ` +
        `remove it with nacre workspace rm ${id}`,
    )
  throw engineError('FILE_NOT_FOUND', `there is no workspace '${id}'; nacre workspace ls lists them`)
}

async function open(id: string): Promise<Sandbox> {
  const { Sandbox } = await import('../backends/native/sandbox.js')
  const cwd = await directoryOf(id)
  return new Sandbox({ cwd, workspace: { mode: 'copy-on-write', path: cwd, id } })
}

/** Makes a call that may leave no changes. The workspace is removed then. */
async function settle(id: string, call: (sandbox: Sandbox) => Promise<void>): Promise<void> {
  const sandbox = await open(id)
  let isEmpty = false
  try {
    await call(sandbox)
    isEmpty = (await sandbox.workspace.changes()).length === 0
  } finally {
    await sandbox.destroy()
  }
  if (!isEmpty) return
  await sandbox.workspace.delete()
  note(`removed the workspace ${id}, which has no changes left`)
}

function selected(paths: string[]): { paths?: string[] } {
  return paths.length === 0 ? {} : { paths }
}

function cellsOf({ id, path, inUse, usedAt }: NamedWorkspace): string[] {
  return [id, usedAt.toISOString(), inUse ? 'in use' : 'kept', printable(path ?? '(cannot be read)')]
}
