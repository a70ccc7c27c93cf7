/** Hunks, reviews and blame in forks and merges, and of an ordinary user. */
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import { temporary } from '../helpers/temporary.js'

const LINES = Array.from({ length: 40 }, (_, line) => `${line}\n`).join('')
const EDIT = "sed -i 's/^2$/two/; s/^20$/twenty/; s/^38$/last/' lines"

const inProject = inWorkspaceOver(
  ({ directory }) => {
    writeFileSync(path.join(directory, 'lines'), LINES)
    writeFileSync(path.join(directory, '.gitignore'), '')
  },
  { workspace: { mode: 'copy-on-write', undoSteps: 5 } },
)

const idsOf = async ({ workspace }: Sandbox) =>
  (await workspace.review({ paths: ['lines'] })).source[0]?.hunks.map(({ id }) => id) ?? []

describe('hunks', () => {
  it(
    'are the same in a fork, and of a merge',
    inProject(async ({ sandbox, directory }) => {
      await sandbox.exec(EDIT)
      const [first = '', second = '', third = ''] = await idsOf(sandbox)
      await sandbox.workspace.discard({ hunks: [{ path: 'lines', ids: [second] }] })
      const forks = await sandbox.fork(2)
      try {
        const [one, two] = forks as [Sandbox, Sandbox]
        expect(await idsOf(one)).toEqual([first, third])
        await one.workspace.discard({ hunks: [{ path: 'lines', ids: [first] }] })
        await two.exec("sed -i 's/^30$/thirty/' lines")
        const { sandbox: merged } = await Sandbox.merge(forks)
        try {
          const ids = await idsOf(merged)
          expect(ids).toHaveLength(2)
          expect(ids[1]).toBe(third)
          await merged.workspace.commit({ hunks: [{ path: 'lines', ids: [third] }] })
          expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(LINES.replace('38\n', 'last\n'))
          expect((await merged.exec('sed -n "3p;31p" lines')).stdout).toBe('2\nthirty\n')
        } finally {
          await merged.destroy()
        }
        expect(await one.workspace.blame('lines')).toBeNull()
        expect((await two.workspace.blame('lines'))?.command).toContain('thirty')
      } finally {
        await Promise.all(forks.map((fork) => fork.destroy()))
      }
    }),
  )

  it.skipIf(obstacle !== undefined)(
    'of an ordinary user are committed and discarded, undone and blamed',
    async () => {
      const directory = temporary('nacre-hunks-')
      mkdirSync(path.join(directory, 'dir'))
      for (const file of ['lines', '.gitignore', 'dir/a']) {
        writeFileSync(path.join(directory, file), file === 'lines' ? LINES : '')
        giveToOrdinaryUser(path.join(directory, file))
      }
      for (const name of ['.', 'dir']) giveToOrdinaryUser(path.join(directory, name))
      const host = startHost(
        `(async () => {
        const sandbox = new Sandbox({ cwd: ${JSON.stringify(directory)}, workspace: { mode: 'copy-on-write', undoSteps: 5 } })
        const { workspace } = sandbox
        await sandbox.exec(${JSON.stringify(EDIT)})
        await sandbox.exec('rm -r dir; echo x > new; sleep 0.01; touch -d @1000000000 lines')
        const out = []
        out.push((await workspace.blame('lines')).command.slice(0, 3), (await workspace.blame('dir/a')).type)
        await sandbox.undo()
        out.push(await sandbox.exec('ls -A; stat -c %Y lines').then(({ stdout }) => stdout.split('\\n').length))
        const [first, second, third] = (await workspace.review()).source[0].hunks.map(({ id }) => id)
        await workspace.discard({ hunks: [{ path: 'lines', ids: [second] }] })
        await workspace.commit({ hunks: [{ path: 'lines', ids: [first] }] })
        out.push((await workspace.changes()).map(({ path }) => path).join())
        out.push(await sandbox.exec('sed -n "3p;21p;39p" lines').then(({ stdout }) => stdout))
        await sandbox.destroy()
        print(JSON.stringify(out))
        })()`,
        asOrdinaryUser,
      )
      expect([await host.ended(), host.output().trim()]).toEqual([0, expect.stringMatching(/^\[.*\]$/)])
      expect(JSON.parse(host.output())).toEqual(['sed', 'deleted', 5, 'lines', 'two\n20\nlast\n'])
      expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(LINES.replace('\n2\n', '\ntwo\n'))
    },
  )
})
