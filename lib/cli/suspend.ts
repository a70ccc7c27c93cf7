/**
 * `nacre suspend` and `nacre resume`: kept sandboxes that no program uses, as files that another machine can go on with.
 */
import { existsSync } from 'node:fs'
import path from 'node:path'
import { type Command, Option } from 'commander'
import { defaultStateDir } from '../backends/native/plan/default-directories.js'
import { engineError } from '../base/errors.js'
import { absolute } from '../base/working-directory.js'
import type { Preset } from '../schema/isolation-rules.js'
import { withExamples } from './examples.js'
import { note, printable } from './terminal.js'
import { directoryOption, isolationOption, stateDirOption } from './values.js'
import { listWorkspaces } from './workspace.js'

interface ResumeFlags {
  keep: string
  cwd: string
  stateDir?: string
  isolation?: Preset
  onDifference: 'reject' | 'report'
}

export function addSuspend(program: Command): void {
  const suspend = program
    .command('suspend')
    .description('write a sandbox that was kept, and that no program uses, to a file')
    .argument('<name>', 'as for `nacre serve --keep`')
    .argument('<file>')
    .addOption(stateDirOption())
    .action(async (name: string, file: string, { stateDir }: { stateDir?: string }) => {
      const kept = path.join(absolute(stateDir ?? defaultStateDir()), 'kept', name)
      if (!existsSync(kept))
        throw engineError('FILE_NOT_FOUND', `nothing is kept as '${name}': ${kept} is missing`)
      const { Sandbox } = await import('../backends/native/sandbox.js')
      const cwd = (await listWorkspaces(stateDir)).find(({ id }) => id === name)?.path ?? undefined
      const workspace = cwd === undefined ? undefined : ({ mode: 'copy-on-write', path: cwd } as const)
      await using sandbox = new Sandbox({ cwd, stateDir, keep: name, workspace })
      const { bytes, files, sessions, missing } = await sandbox.suspend(file)
      note(`wrote ${sessions.length} sessions and ${files} files: ${bytes} bytes`)
      noteMissing(missing)
    })
  withExamples(suspend, [['nacre suspend agent-7 agent-7.nacre', 'for another machine, or for later']])
}

export function addResume(program: Command): void {
  const resume = program
    .command('resume')
    .description('keep the sandbox of such a file under a name, with which `nacre serve --keep` goes on')
    .argument('<file>')
    .requiredOption('--keep <name>', 'a new name')
    .addOption(directoryOption('the directory'))
    .addOption(stateDirOption())
    .addOption(isolationOption())
    .addOption(
      new Option('--on-difference <what>', 'if the directory is not as it was below the files')
        .choices(['reject', 'report'])
        .default('reject'),
    )
    .action(async (file: string, { isolation, ...options }: ResumeFlags) => {
      const { Sandbox } = await import('../backends/native/sandbox.js')
      const { sandbox, missing, differences } = await Sandbox.resume(file, { ...options, isolation })
      await sandbox.destroy()
      note(`kept as ${options.keep}`)
      for (const difference of differences) note(`differs: ${printable(difference)}`)
      noteMissing(missing)
    })
  withExamples(resume, [
    ['nacre resume agent-7.nacre --keep agent-7', 'then nacre serve --keep agent-7 --copy-on-write'],
  ])
}

function noteMissing(missing: string[]): void {
  for (const text of missing) note(`missing: ${printable(text)}`)
}
