/** Directories of git that lie outside of a workspace: no layer has them, so a discard could not take back what git writes there. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { cwd, encoding: 'utf8' })

const prepare: Record<string, (root: string) => string> = {
  'a linked worktree': (root) => {
    git(root, 'worktree', 'add', '-q', '-b', 'side', '../tree')
    return path.join(path.dirname(root), 'tree')
  },
  'a submodule': (root) => {
    git(root, 'clone', '-q', '--bare', '.', 'library.git')
    git(root, '-c', 'protocol.file.allow=always', 'submodule', '--quiet', 'add', './library.git', 'sub')
    return path.join(root, 'sub')
  },
  'a sub-directory': (root) => {
    mkdirSync(path.join(root, 'below'))
    return path.join(root, 'below')
  },
}

/** A workspace is a file system, and git looks for no repository above one. */
const env = { GIT_DISCOVERY_ACROSS_FILESYSTEM: '1' }

const COMMIT = 'echo x > x && git add x && git -c user.name=x -c user.email=x@x commit -qm second'

describe('copy-on-write without isolation', () => {
  for (const [name, place] of Object.entries(prepare))
    it(`refuses a commit in ${name}, with the path`, () =>
      withSandbox(async ({ directory }) => {
        const root = path.join(directory, 'main')
        mkdirSync(root)
        git(root, 'init', '-q', '-b', 'main')
        git(root, 'commit', '-q', '--allow-empty', '-m', 'first')
        const cwd = place(root)
        const refs = () => git(root, 'for-each-ref') + git(cwd, 'log', '--oneline')
        const before = refs()
        await using sandbox = new Sandbox({ cwd, workspace: 'copy-on-write', env })
        const { exitCode, stderr } = await sandbox.exec(COMMIT)
        expect([exitCode === 0, stderr]).toEqual([
          false,
          expect.stringMatching(/main\/\.git\/.*Read-only file system/),
        ])
        expect((await sandbox.exec('git log --format=%s && git status >log')).stdout).toBe('first\n')
        await sandbox.workspace.discard()
        expect(refs()).toBe(before)
      }))

  it('layers the repository of a main checkout', () =>
    withSandbox(async ({ directory }) => {
      git(directory, 'init', '-q', '-b', 'main')
      git(directory, 'commit', '-q', '--allow-empty', '-m', 'first')
      await using sandbox = new Sandbox({ cwd: directory, workspace: 'copy-on-write' })
      await sandbox.exec(COMMIT, { check: true })
      expect((await sandbox.exec('git log --format=%s')).stdout).toBe('second\nfirst\n')
      await sandbox.workspace.discard()
      expect(git(directory, 'log', '--format=%s')).toBe('first\n')
    }))

  it('believes no file that names the repository of another work tree', () =>
    withSandbox(async ({ directory }) => {
      const [other, cwd] = [path.join(directory, 'other'), path.join(directory, 'work')]
      for (const place of [other, cwd]) mkdirSync(place)
      git(other, 'init', '-q')
      writeFileSync(path.join(cwd, '.git'), `gitdir: ${other}/.git\n`)
      await using sandbox = new Sandbox({ cwd, workspace: 'copy-on-write' })
      expect((await sandbox.exec(`touch ${other}/.git/x`)).exitCode).toBe(0)
      rmSync(path.join(other, '.git/x'))
    }))
})
