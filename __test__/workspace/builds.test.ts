/** Builds compare times: after a discard and after a commit they make what the sources are now. */
import { execFileSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { builders, describeBuilder } from '../helpers/builders.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'

for (const builder of builders) describeBuilder(builder)

describe('make', () => {
  const inProject = inWorkspaceOver(({ directory }) => {
    writeFileSync(path.join(directory, 'a.txt'), 'one\n')
    writeFileSync(path.join(directory, 'Makefile'), 'out: a.txt\n\tcat a.txt > out\n')
  })

  it(
    'builds what is there, however soon a discard follows a build',
    inProject(async ({ sandbox }) => {
      for (let round = 0; round < 20; round++) {
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.workspace.discard({ paths: ['a.txt'] })
        expect((await sandbox.exec('make -s && cat out; make -q && echo built')).stdout).toBe('one\nbuilt\n')
      }
    }),
  )

  it(
    'rebuilds nothing after a discard of everything, an undo, a rollback and in a fork',
    inProject(
      async ({ sandbox, directory }) => {
        execFileSync('make', ['-s'], { cwd: directory })
        const isBuilt = async (box = sandbox) => (await box.exec('make -q && cat out')).stdout
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.workspace.discard()
        expect(await isBuilt()).toBe('one\n')
        const point = await sandbox.checkpoint()
        await sandbox.exec('echo two > a.txt; make -s')
        const fork = await sandbox.fork()
        expect(await isBuilt(fork)).toBe('two\n')
        await fork?.destroy()
        await sandbox.undo()
        expect(await isBuilt()).toBe('one\n')
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.rollback(point)
        expect(await isBuilt()).toBe('one\n')
        // An output that is older than its source in the real directory stays so.
        writeFileSync(path.join(directory, 'a.txt'), 'edited\n')
        await sandbox.exec('echo two > out')
        await sandbox.workspace.discard()
        expect((await sandbox.exec('make -s && cat out')).stdout).toBe('edited\n')
      },
      { workspace: { mode: 'copy-on-write', undoSteps: 5 } },
    ),
  )
})
