/** Checkpoints and undo in sessions of hundreds of commands: the layers of a mount have a limit. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import type { Workplace } from '../helpers/invariants.js'
import { rejectionOf } from '../helpers/thrown.js'

const inWorkspace = inWorkspaceOver(prepare)

function prepare({ directory }: Workplace): void {
  mkdirSync(path.join(directory, 'old/deep'), { recursive: true })
  for (const name of ['a', 'old/b', 'old/deep/c']) writeFileSync(path.join(directory, name), `${name}\n`)
}

const withSteps: SandboxOptions = { workspace: { mode: 'copy-on-write', undoSteps: 5 } }

const NONE = { code: 'CHECKPOINT_NOT_FOUND', message: expect.stringContaining('undoSteps') }

describe('a checkpoint', () => {
  it(
    'can be made and rolled back to on one another, any number of times',
    inWorkspace(async ({ sandbox }) => {
      const points = []
      for (let round = 0; round < 230; round++) {
        await sandbox.files.write('a', `${round}`)
        await sandbox.files.write(`file-${round}`, '')
        const point = await sandbox.checkpoint()
        await sandbox.rollback(point)
        points.push(point)
      }
      for (const at of [229, 0, 199, 100]) {
        await sandbox.rollback(points[at] ?? '')
        expect((await sandbox.exec('cat a; echo; ls file-* | wc -l')).stdout).toBe(`${at}\n${at + 1}\n`)
      }
    }),
  )

  it(
    'can be made after any number of commands',
    inWorkspace(async ({ sandbox }) => {
      const points = []
      for (let round = 0; round < 170; round++) {
        await sandbox.exec(`echo ${round} > a; echo ${round} > file-${round}`)
        points.push(await sandbox.checkpoint())
      }
      const { files, layers } = await sandbox.workspace.usage()
      // The last ones are copies, because the layers of a mount have a limit.
      expect(layers).toBe(171)
      expect(files).toBeGreaterThan(2 * 170)
      for (const at of [169, 0, 150, 75]) {
        await sandbox.rollback(points[at] ?? '')
        expect((await sandbox.exec('cat a; ls file-* | wc -l')).stdout).toBe(`${at}\n${at + 1}\n`)
      }
    }),
  )
})

describe('undo', () => {
  it(
    'keeps no more than undoSteps, and few layers, in a long session',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('mkdir d; head -c 100000 /dev/zero > big')
      let most = { layers: 0, bytes: 0 }
      for (let step = 0; step < 300; step++) {
        await sandbox.exec(
          `head -c 100000 /dev/zero > big; echo ${step} > d/${step % 40}; rm -f d/${(step * 7) % 40}`,
        )
        const { layers, bytes } = await sandbox.workspace.usage()
        most = { layers: Math.max(most.layers, layers), bytes: Math.max(most.bytes, bytes) }
      }
      expect(most.layers).toBeLessThan(60)
      expect(most.bytes).toBeLessThan(60 * 250_000)
      for (let step = 299; step >= 295; step--)
        expect((await sandbox.undo()).command).toContain(`echo ${step} >`)
      expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
      const model = new Map<number, number>()
      for (let step = 0; step < 295; step++) {
        model.set(step % 40, step)
        model.delete((step * 7) % 40)
      }
      const files = [...model].map(([name, step]) => `d/${name}:${step}`).sort()
      const { stdout } = await sandbox.exec("grep -r '' d")
      expect(stdout.trim().split('\n').sort()).toEqual(files)
    }, withSteps),
  )

  it(
    'takes back one command in a long session that renames directories, and keeps few layers',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('mkdir p; echo 1 > p/f')
      for (let step = 0; step < 200; step++)
        await sandbox.exec(`mv p q; mv q p; mv old moved; mv moved old; echo ${step} > old/deep/c`)
      expect((await sandbox.workspace.usage()).layers).toBeLessThan(60)
      for (const step of [198, 197]) {
        await sandbox.undo()
        expect((await sandbox.exec('cat old/deep/c p/f')).stdout).toBe(`${step}\n1\n`)
        await sandbox.undo()
      }
    }, withSteps),
  )
})
