/** The time limit of merge drivers. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'

it(
  'a merge driver that hangs is killed, and the other files are merged',
  inWorkspaceOver(({ directory }) => {
    const git = (...args: string[]) => execFileSync('git', args, { cwd: directory })
    git('init', '-q')
    git(
      'config',
      'merge.own.driver',
      'test %P = b.own || { echo waiting; sleep 1000 & sleep 1001; }; echo done >%A',
    )
    writeFileSync(path.join(directory, '.gitattributes'), '*.own merge=own\n')
  })(async ({ sandbox }) => {
    const [first, second] = (await sandbox.fork(2)) as [Sandbox, Sandbox]
    await first.exec('echo one | tee a.own >b.own')
    await second.exec('echo two | tee a.own >b.own')
    const { sandbox: merged, conflicts } = await Sandbox.merge([first, second], { onConflict: 'markers' })
    expect(conflicts).toEqual([
      {
        ...{ path: 'a.own', reason: 'driver', sides: [0, 1], hunks: [] },
        driver: { name: 'own', exitCode: null, output: 'waiting\n' },
      },
    ])
    expect((await merged.exec('cat a.own b.own; ls -A')).stdout).toBe(
      'one\ndone\n.git\n.gitattributes\na.own\nb.own\n',
    )
    await Promise.all([first, second, merged].map((one) => one.destroy()))
  }),
  120_000,
)
