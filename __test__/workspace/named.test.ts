/** Workspaces with a name outlive their sandbox; those in memory have a limit. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { withSandbox } from '../helpers/invariants.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'

interface Place {
  /** The real directory, with the file `a`. */
  cwd: string
  stateDir: string
  /** Options of a sandbox with a workspace of this name. */
  named(id: string): SandboxOptions
}

async function withPlace(test: (place: Place) => Promise<void>): Promise<void> {
  const base = temporary('nacre-named-')
  const [cwd, stateDir] = [path.join(base, 'real'), path.join(base, 'state')]
  mkdirSync(cwd)
  writeFileSync(path.join(cwd, 'a'), 'one\n')
  const named = (id: string) => ({ cwd, stateDir, workspace: { mode: 'copy-on-write', id } }) as const
  await test({ cwd, stateDir, named })
}

/** Runs a test in a sandbox, and destroys it. */
async function within<T>(options: SandboxOptions, test: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  await using sandbox = new Sandbox(options)
  return await test(sandbox)
}

const shown = async (sandbox: Sandbox) =>
  (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)

describe('a workspace with a name', () => {
  it('goes on after its sandbox, and finds conflicts with what happened in between', () =>
    withPlace(async ({ cwd, named }) => {
      const options = named('task.1')
      await within(options, async (sandbox) => {
        await sandbox.exec('echo two > a; echo new > b')
        expect(await sandbox.workspace.info()).toEqual({ path: cwd, id: 'task.1' })
        expect(await sandbox.workspace.commit({ paths: ['b'] })).toMatchObject({ applied: 1 })
        await sandbox.exec('echo more >> b')
      })
      expect(readFileSync(path.join(cwd, 'a'), 'utf8')).toBe('one\n')
      writeFileSync(path.join(cwd, 'a'), 'theirs\n')
      await within(options, async (sandbox) => {
        expect((await sandbox.exec('cat a b')).stdout).toBe('two\nnew\nmore\n')
        expect(await shown(sandbox)).toEqual(['modified a', 'modified b'])
        const refused = await rejectionOf(sandbox.workspace.commit())
        expect(refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a'] })
        expect(await sandbox.workspace.commit({ paths: ['b'] })).toMatchObject({ applied: 1 })
        await sandbox.workspace.discard()
      })
      await within(options, async (sandbox) => expect(await shown(sandbox)).toEqual([]))
    }))

  it('goes on after the death of its host', () =>
    withPlace(async ({ cwd, named }) => {
      const options = JSON.stringify(named('killed'))
      const host = startHost(
        `const sandbox = new Sandbox(${options}); sandbox.exec('echo two > a').then(() => print('made'))`,
      )
      await host.printed('made')
      host.child.kill('SIGKILL')
      await host.ended()
      await within(named('killed'), async (sandbox) => {
        expect((await sandbox.exec('cat a')).stdout).toBe('two\n')
        await sandbox.workspace.commit()
      })
      expect(readFileSync(path.join(cwd, 'a'), 'utf8')).toBe('two\n')
    }))

  it('keeps its steps for undo after the death of its host', () =>
    withPlace(async ({ cwd, stateDir }) => {
      const options = {
        cwd,
        stateDir,
        workspace: { mode: 'copy-on-write', id: 'steps', undoSteps: 5 },
      } as const
      const host = startHost(`
        const sandbox = new Sandbox(${JSON.stringify(options)})
        const steps = async () => {
          for (let step = 0; step < 40; step++) await sandbox.exec('x=' + step + '; echo ' + step + ' > a; mkdir d' + step)
          print('made')
        }
        steps()`)
      await host.printed('made')
      host.child.kill('SIGKILL')
      await host.ended()
      await within(options, async (sandbox) => {
        for (const step of [39, 38]) {
          expect((await sandbox.undo()).command).toBe(`x=${step}; echo ${step} > a; mkdir d${step}`)
          const { stdout } = await sandbox.exec('cat a; echo $x; ls -d d* | wc -l')
          expect(stdout).toBe(`${step - 1}\n${step - 1}\n${step}\n`)
          await sandbox.undo()
        }
      })
      await within(options, async (sandbox) => {
        expect((await sandbox.undo()).command).toContain('x=37;')
        expect((await sandbox.exec('cat a; echo $x')).stdout).toBe('36\n36\n')
        await sandbox.workspace.discard()
      })
    }))

  it('keeps its checkpoints, with the shells, after its sandbox and the death of its host', () =>
    withPlace(async ({ named }) => {
      const options = JSON.stringify(named('kept'))
      const host = startHost(`
        const sandbox = new Sandbox(${options})
        const steps = async () => {
          await sandbox.exec('echo two > a; x=kept; mkdir sub; cd sub')
          await sandbox.createSession({ id: 'other' })
          await sandbox.checkpoint({ name: 'before' })
          await sandbox.exec('cd ..; rm -r sub; echo three > a; x=lost')
          print('made')
        }
        steps()`)
      await host.printed('made')
      host.child.kill('SIGKILL')
      await host.ended()
      await within(named('kept'), async (sandbox) => {
        expect((await sandbox.exec('cat a; echo $x; pwd -P; y=1')).stdout).toMatch(/^three\n\n/)
        expect(await sandbox.checkpoints()).toMatchObject([
          { name: 'before', sessions: ['default', 'other'] },
        ])
        await sandbox.checkpoint({ name: 'after' })
      })
      await within(named('kept'), async (sandbox) => {
        const [before, after] = await sandbox.checkpoints()
        await sandbox.rollback(before ?? '')
        expect((await sandbox.exec('cat ../a; echo $x; basename "$PWD"')).stdout).toBe('two\nkept\nsub\n')
        expect(await sandbox.getSession('other')).not.toBeNull()
        await sandbox.rollback(after ?? '')
        expect((await sandbox.exec('cat a; echo $y')).stdout).toBe('three\n1\n')
        await sandbox.workspace.commit()
      })
      await within(named('kept'), async (sandbox) => {
        expect(await sandbox.checkpoints()).toEqual([])
        expect(await shown(sandbox)).toEqual([])
      })
    }))

  it('does not bring back isolation that was checked against other rules', () =>
    withPlace(async ({ named }) => {
      const [loose, strict] = ['workspace+network', 'workspace'] as const
      await within({ ...named('rules'), isolation: loose }, async (sandbox) => {
        await sandbox.createSession({ id: 'own', isolation: loose })
        await sandbox.checkpoint()
        await sandbox.deleteSession('own')
        await sandbox.checkpoint()
      })
      await within({ ...named('rules'), isolation: strict }, async (sandbox) => {
        const [first, second] = await sandbox.checkpoints()
        const refused = await rejectionOf(sandbox.rollback(first ?? ''))
        expect(refused).toMatchObject({ code: 'WORKSPACE_UNSUPPORTED' })
        expect((refused as Error).message).toContain("session 'own'")
        await sandbox.rollback(second ?? '')
      })
    }))

  it('belongs to one sandbox at a time, is listed, and can be deleted', () =>
    withPlace(async ({ cwd, stateDir, named }) => {
      // The layers have seconds.
      const begun = Math.floor(Date.now() / 1000) * 1000
      const other = new Sandbox({ stateDir })
      expect(await other.workspace.list()).toEqual([])
      const sandbox = new Sandbox(named('one'))
      await sandbox.exec('echo two > a')
      await using second = new Sandbox(named('one'))
      expect(await rejectionOf(second.exec('true'))).toMatchObject({ code: 'WORKSPACE_IN_USE' })
      expect(await rejectionOf(sandbox.workspace.delete())).toMatchObject({ code: 'WORKSPACE_IN_USE' })
      const usedAt = expect.any(Date)
      const listed = await other.workspace.list()
      expect(listed).toEqual([{ id: 'one', path: cwd, inUse: true, usedAt }])
      expect(listed[0]?.usedAt.getTime()).toBeGreaterThanOrEqual(begun)
      await other.destroy()
      await sandbox.destroy()
      expect(await sandbox.workspace.list()).toEqual([{ id: 'one', path: cwd, inUse: false, usedAt }])
      await sandbox.workspace.delete()
      expect(await other.workspace.list()).toEqual([])
      expect(await rejectionOf(other.workspace.delete('one'))).toMatchObject({ code: 'FILE_NOT_FOUND' })
      expect(await rejectionOf(other.workspace.delete())).toMatchObject({ code: 'INVALID_ID' })
      expect(existsSync(path.join(stateDir, 'workspaces/id-one'))).toBe(false)
    }))

  it('is lost when its directory is another one', () =>
    withPlace(async ({ cwd, named }) => {
      await within(named('lost'), (sandbox) => sandbox.exec('echo two > a'))
      // Both exist for a moment: a file system may use the number of a removed directory again.
      mkdirSync(`${cwd}-other`)
      rmSync(cwd, { recursive: true })
      renameSync(`${cwd}-other`, cwd)
      await within(named('lost'), async (sandbox) => {
        expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'WORKSPACE_LOST' })
        await sandbox.destroy()
        await sandbox.workspace.delete()
      })
    }))

  it('keeps its layers in a directory of choice', () =>
    withPlace(async ({ cwd, stateDir }) => {
      const directory = path.join(stateDir, '../layers')
      const workspace = { mode: 'copy-on-write', id: 'elsewhere', directory } as const
      await within({ cwd, stateDir, workspace }, async (sandbox) => {
        expect((await sandbox.exec(`echo two > a; ls -A ${directory}`)).stdout).toBe('')
        expect(await sandbox.workspace.list()).toMatchObject([{ id: 'elsewhere' }])
      })
      expect(existsSync(path.join(directory, 'id-elsewhere'))).toBe(true)
    }))
})

describe('a workspace in memory', () => {
  const workspace = { mode: 'copy-on-write', storage: 'memory', maxBytes: 1 << 20 } as const

  it('has a limit, works again when there is room, and leaves nothing', () =>
    withSandbox(
      async ({ sandbox, directory, stateDir }) => {
        writeFileSync(path.join(directory, 'a'), 'one\n')
        const { exitCode, stderr } = await sandbox.exec('head -c 2000000 /dev/zero > large')
        expect([exitCode, stderr]).toEqual([1, expect.stringContaining('No space left on device')])
        expect((await sandbox.exec('rm large; echo two > a; cat a')).stdout).toBe('two\n')
        expect(await shown(sandbox)).toEqual(['modified a'])
        expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
        expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('two\n')
        await sandbox.destroy()
        expect(existsSync(path.join(stateDir, 'workspaces'))).toBe(false)
      },
      { options: { workspace }, destroys: true },
    ))
})

it('options that cannot be are refused before anything runs', () =>
  withPlace(async ({ cwd, stateDir }) => {
    const messageOf = (workspace: object) =>
      (
        thrownBy(
          () => new Sandbox({ cwd, stateDir, workspace: { mode: 'copy-on-write', ...workspace } }),
        ) as Error
      ).message
    expect(messageOf({ storage: 'memory', id: 'a' })).toMatch(/^workspace\.id needs storage: 'disk'/)
    expect(messageOf({ storage: 'memory', directory: '/x' })).toMatch(/^workspace\.directory needs/)
    expect(messageOf({ directory: path.join(cwd, 'layers') })).toMatch(
      /must not contain workspace\.directory/,
    )
    expect(messageOf({ directory: path.dirname(cwd) })).toMatch(/must not be inside the directory of layers/)
  }))
