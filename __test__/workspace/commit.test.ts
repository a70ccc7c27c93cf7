/** The changes of a copy-on-write workspace become a patch, become real, or are taken back. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { CHANGE, prepare, tree } from '../helpers/changes.js'
import { copyOnWrite, hasGroups, inWorkspaceOver } from '../helpers/in-workspace.js'
import { type Mode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const withoutGroups: Mode = { name: 'without control groups', env: { NACRE_CONTAINMENT: 'subreaper' } }

const inWorkspace = inWorkspaceOver(prepare)

/** All changes but the directories, which a patch does not name. */
const CHANGED = ['a', 'deep/er/binary', 'deep/link', 'deep/text', 'sub/b', 'tool']

describe('workspace.diff', () => {
  it(
    'is a patch that git applies to the real directory',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec(`${CHANGE}; cp -r . /tmp/seen-$$; echo /tmp/seen-$$`)
      const seen = (await sandbox.exec('echo /tmp/seen-$$')).stdout.trim()
      const patch = await sandbox.workspace.diff()
      expect(Buffer.from(patch).toString()).toContain('diff --git a/a b/a\n')
      execFileSync('git', ['apply', '--whitespace=nowarn', '-'], { cwd: directory, input: patch })
      try {
        expect(tree(directory)).toEqual(tree(seen))
      } finally {
        await sandbox.exec(`rm -r ${seen}`)
      }
    }),
  )
})

describe('workspace.commit', () => {
  for (const mode of [...modes, ...plain])
    it(`makes the changes real, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox, directory } = workplace
          prepare(workplace)
          await sandbox.exec(`${CHANGE}; v=kept`)
          const changes = await sandbox.workspace.changes()
          expect(await sandbox.workspace.commit()).toEqual({ applied: changes.length, skipped: [] })
          expect(Object.keys(tree(directory))).toEqual(
            ['a', 'deep', 'deep/er', ...CHANGED.slice(1, 4), 'tool'].sort(),
          )
          expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('changed\n')
          expect(statSync(path.join(directory, 'tool')).mode & 0o111).toBe(0o111)
          expect(await sandbox.workspace.changes()).toEqual([])
          expect((await sandbox.exec('cat a deep/text; echo " $v"; echo more >> a')).stdout).toBe(
            'changed\nno newline kept\n',
          )
          expect(await sandbox.workspace.commit()).toEqual({ applied: 1, skipped: [] })
          expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('changed\nmore\n')
        },
        { options: copyOnWrite },
      ))
})

describe('a commit', () => {
  it.skipIf(!hasGroups)(
    'waits for running commands, and stops background processes for the moment',
    inWorkspace(async ({ sandbox, directory }) => {
      // Both files have the same lines, but for the moment between two lines.
      const loop = 'for (( i = 0; ; i++ )); do echo $i >> left; echo $i >> right; done'
      const background = await sandbox.startProcess(loop)
      await holds(async () => (await sandbox.exec('[ -s right ]')).exitCode === 0)
      const running = sandbox.exec('until [ -e ../go ]; do sleep 0.01; done; echo late > late')
      const committed = sandbox.workspace.commit()
      const behind = sandbox.exec('cat late')
      const listed = sandbox.workspace.changes()
      expect((await listed).map(({ path }) => path)).not.toContain('late')
      // A new session waits for the commit, which waits for the command.
      const elsewhere = sandbox.createSession().then((other) => other.exec('echo $PWD'))
      writeFileSync(path.join(directory, '../go'), '')
      await running
      expect((await committed).applied).toBe(3)
      expect((await behind).stdout).toBe('late\n')
      expect((await elsewhere).stdout).toBe(`${directory}\n`)
      const lines = (name: string) => readFileSync(path.join(directory, name), 'utf8').split('\n').length
      expect(lines('left') - lines('right')).toBeOneOf([0, 1])
      // The process goes on.
      expect((await sandbox.getProcess(background.id))?.status).toBe('running')
      await sandbox.workspace.commit()
      await background.kill('SIGKILL')
    }),
  )

  it('names the processes that it cannot stop', () =>
    withSandboxIn(
      withoutGroups,
      async (workplace) => {
        prepare(workplace)
        const { sandbox } = workplace
        await sandbox.exec('echo changed > a')
        const process = await sandbox.startProcess(['sleep', '1000'])
        const calls = [sandbox.workspace.commit(), sandbox.workspace.discard()]
        for (const error of await rejectionsOf(calls)) {
          const { code, message } = error as SandboxError
          expect([code, message]).toEqual([
            'WORKSPACE_BUSY',
            expect.stringContaining(`${process.pid} (sleep 1000)`),
          ])
        }
        await process.kill('SIGKILL')
        expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
      },
      { options: copyOnWrite },
    ))

  it(
    'does not take a file that is being written',
    inWorkspace(async ({ sandbox, directory }) => {
      let more = () => {}
      async function* slowly() {
        yield 'half'
        await new Promise<void>((resolve) => {
          more = resolve
        })
        yield 'whole'
      }
      const written = sandbox.files.write('streamed', ReadableStream.from(slowly()))
      await holds(async () => (await sandbox.exec('ls -A')).stdout.includes('.nacre-'))
      expect(await sandbox.workspace.changes()).toEqual([])
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 0 })
      more()
      await written
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
      expect(readFileSync(path.join(directory, 'streamed'), 'utf8')).toBe('halfwhole')
    }),
  )
})

describe('workspace.discard', () => {
  for (const mode of [...modes, ...plain])
    it(`takes the changes back, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox, directory } = workplace
          prepare(workplace)
          const before = tree(directory)
          await sandbox.exec(`${CHANGE}; v=kept`)
          const { length } = await sandbox.workspace.changes()
          expect(await sandbox.workspace.discard({ paths: ['tool'] })).toEqual({ discarded: 1 })
          expect(await sandbox.workspace.discard()).toEqual({ discarded: length - 1 })
          expect(await sandbox.workspace.changes()).toEqual([])
          expect((await sandbox.exec('cat a sub/b; ls; echo $v')).stdout).toBe(
            'one\ntwo\na\nsub\ntool\nkept\n',
          )
          expect(tree(directory)).toEqual(before)
          const refused = await rejectionOf(sandbox.workspace.discard({ paths: ['a'] }))
          expect(refused).toMatchObject({ code: 'FILE_NOT_FOUND', path: 'a' })
        },
        { options: copyOnWrite },
      ))
})

describe('a git repository in a workspace', () => {
  it(
    'works with git, and can be committed and discarded',
    inWorkspace(async ({ sandbox, directory }) => {
      const git = (args: string) =>
        sandbox.exec(`git -c user.name=a -c user.email=a@b ${args}`, { check: true })
      await git('init -q .')
      await git('add .')
      await git('commit -q -m first')
      expect(existsSync(path.join(directory, '.git'))).toBe(false)
      expect(await sandbox.workspace.diff()).toHaveLength(0)
      await sandbox.workspace.commit()
      expect(execFileSync('git', ['status', '--porcelain'], { cwd: directory, encoding: 'utf8' })).toBe('')
      await git('rm -q -r sub')
      await git('commit -q -m second')
      await sandbox.workspace.discard()
      expect((await git('log --format=%s')).stdout).toBe('first\n')
      expect((await git('status --porcelain')).stdout).toBe('')
    }),
  )
})
