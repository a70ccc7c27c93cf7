/** A commit leaves out what programs of the machine run later, unless it is named. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withClient } from '../contract/helper.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'

const options: SandboxOptions = { workspace: 'copy-on-write', isolation: 'workspace' }
const inProject = inWorkspaceOver(({ directory }) => {
  mkdirSync(path.join(directory, '.git/hooks'), { recursive: true })
  writeFileSync(path.join(directory, '.git/config'), 'real\n')
}, options)

const ATTACK =
  'echo planted | tee .git/config .git/hooks/pre-commit .envrc file >/dev/null; mkdir -p sub; echo planted > sub/.npmrc'

describe('what programs of the machine run later', () => {
  it(
    'is writable in a workspace, is marked, and is left out of a commit',
    inProject(async (workplace) => {
      const { sandbox, directory } = workplace
      await sandbox.exec(ATTACK)
      const changes = await sandbox.workspace.changes()
      const marked = changes.filter(({ withheld }) => withheld !== undefined).map((change) => change.path)
      await withClient(workplace, async (client) => {
        const seen = await client.workspace.changes()
        expect(seen.map(({ withheld }) => withheld)).toEqual(changes.map(({ withheld }) => withheld))
      })
      expect(marked).toEqual(['.envrc', '.git/config', '.git/hooks/pre-commit', 'sub/.npmrc'])
      const { applied, skipped } = await sandbox.workspace.commit()
      expect([applied, skipped.map((skip) => skip.path)]).toEqual([2, marked])
      expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('planted\n')
      expect(readFileSync(path.join(directory, '.git/config'), 'utf8')).toBe('real\n')
      expect(
        ['.envrc', '.git/hooks/pre-commit', 'sub/.npmrc'].some((name) =>
          existsSync(path.join(directory, name)),
        ),
      ).toBe(false)
      expect((await sandbox.exec('cat .envrc')).stdout).toBe('planted\n')
      expect(await sandbox.workspace.commit({ paths: ['.envrc', 'sub'] })).toMatchObject({ applied: 1 })
      expect(readFileSync(path.join(directory, '.envrc'), 'utf8')).toBe('planted\n')
      expect(existsSync(path.join(directory, 'sub/.npmrc'))).toBe(false)
    }),
  )

  it(
    'is marked in repositories that programs have made, also without a work tree, and in what leads to one',
    inProject(async ({ sandbox, directory }) => {
      await sandbox.exec(
        'git init -q made && git init -q --bare bare.git && mkdir led && echo "gitdir: ../bare.git" >led/.git',
      )
      const marked = (await sandbox.workspace.changes()).flatMap((change) =>
        change.withheld ? [change.path] : [],
      )
      const expected = [
        'bare.git/config',
        'bare.git/hooks',
        'led/.git',
        'made/.git/config',
        'made/.git/hooks',
      ]
      expect(
        expected.filter((name) => !marked.some((found) => found === name || found.startsWith(`${name}/`))),
      ).toEqual([])
      expect(
        marked.filter((name) => !expected.some((found) => name === found || name.startsWith(`${found}/`))),
      ).toEqual(marked.filter((name) => name.endsWith('info/attributes') || name.includes('/branches')))
      const patch = (await sandbox.workspace.diff()).toString()
      // `git apply` refuses paths with `.git`, so a patch has none.
      expect(patch).toMatch(/# runs later: .*\ndiff --git a\/bare\.git\/config /)
      await sandbox.workspace.commit()
      expect(
        ['bare.git/HEAD', 'made/.git/HEAD'].every((name) => existsSync(path.join(directory, name))),
      ).toBe(true)
      expect(
        [...expected, 'bare.git/hooks'].filter((name) => existsSync(path.join(directory, name))),
      ).toEqual([])
      await sandbox.exec('rm -rf made')
      expect(
        (await sandbox.workspace.changes()).some(({ path, withheld }) => path === 'made/.git' && withheld),
      ).toBe(false)
    }),
  )

  it(
    'is committed where the rules protect nothing',
    inProject(
      async ({ sandbox, directory }) => {
        await sandbox.exec(ATTACK)
        expect((await sandbox.workspace.changes()).some(({ withheld }) => withheld !== undefined)).toBe(false)
        expect((await sandbox.workspace.commit()).skipped).toEqual([])
        expect(readFileSync(path.join(directory, '.git/config'), 'utf8')).toBe('planted\n')
      },
      { isolation: { preset: 'workspace', filesystem: { protect: [] } } },
    ),
  )
})
