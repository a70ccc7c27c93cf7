/** Which command has last written a file, here and over HTTP. */
import { mkdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'
import { type ContractPlace, itHolds } from './helper.js'

function holds(name: string, test: (place: ContractPlace) => Promise<void>): void {
  const prepared = async (place: ContractPlace) => {
    mkdirSync(path.join(place.directory, 'dir'))
    for (const file of ['old', 'dir/deep', 'kept']) writeFileSync(path.join(place.directory, file), 'old\n')
    await test(place)
  }
  itHolds(name, prepared, { options: { workspace: { mode: 'copy-on-write', undoSteps: 20 } } })
}

describe('blame', () => {
  holds('names the last command that has written a path', async ({ sandbox, directory }) => {
    const before = Date.now()
    const of = async (file: string | Uint8Array) => {
      const found = await sandbox.workspace.blame(file)
      return found && `${found.type} by ${found.command}, ${found.undos}`
    }
    await sandbox.exec('echo 1 > new; echo 1 > old')
    await sandbox.exec('echo 2 >> old')
    await sandbox.exec('rm dir/deep')
    await sandbox.exec('rmdir dir; echo a file > dir')
    await sandbox.exec('touch new; chmod 600 old; cat kept > copy; cat copy > kept')
    const session = await sandbox.createSession()
    await session.exec("echo 3 > $'odd\\xff'")
    expect(await of('new')).toBe('created by echo 1 > new; echo 1 > old, 6')
    expect(await of(`${directory}/./old`)).toBe('modified by echo 2 >> old, 5')
    expect(await of('dir')).toBe('replaced by rmdir dir; echo a file > dir, 3')
    expect(await of('dir/deep')).toBe('deleted by rm dir/deep, 4')
    expect(await of('copy')).toMatch(/^created by touch new; .*, 2$/)
    expect(await of('kept')).toBeNull()
    expect(await of('missing')).toBeNull()
    const odd = await sandbox.workspace.blame(Buffer.from('odd\xff', 'latin1'))
    expect(odd).toEqual({
      ...{ command: "echo 3 > $'odd\\xff'", sessions: [session.id], startedAt: expect.any(Date) },
      ...{ type: 'created', undos: 1 },
    })
    expect(odd?.startedAt.getTime()).toBeGreaterThanOrEqual(before)
    expect(await rejectionOf(sandbox.workspace.blame('/etc/passwd'))).toMatchObject({ code: 'INVALID_PATH' })
  })

  holds('goes back with undo, a rollback and a discard', async ({ sandbox }) => {
    const of = async (file: string) => (await sandbox.workspace.blame(file))?.command
    await sandbox.exec('mkdir -p made/deep; echo 1 > made/deep/file')
    await sandbox.exec('echo 2 > old; mv made moved || cp -r made moved')
    expect(await of('moved/deep/file')).toMatch(/^echo 2/)
    expect(await of('old')).toMatch(/^echo 2/)
    await sandbox.undo()
    expect(await of('made/deep/file')).toMatch(/^mkdir/)
    expect(await of('old')).toBeUndefined()
    await sandbox.checkpoint()
    await sandbox.exec('echo 3 > made/deep/file')
    await sandbox.exec('echo 4 > new')
    expect(await of('made/deep/file')).toBe('echo 3 > made/deep/file')
    // What comes after a command, without a step, is part of it.
    await sandbox.workspace.discard({ paths: ['new'] })
    expect(await of('new')).toBeUndefined()
    await sandbox.workspace.commit()
    expect(await of('made/deep/file')).toBeUndefined()
  })
})
