/** Commits of a workspace to a branch of git, which leave the user's checkout as it is. */
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', ['-c', 'protocol.file.allow=always', ...args], { cwd, encoding: 'utf8' })

/** A repository with a commit, changes that are not committed, and hooks that leave a trace. */
function repository(directory: string): void {
  git(directory, 'init', '-q', '-b', 'main')
  git(directory, 'config', 'user.name', 'Jo')
  git(directory, 'config', 'user.email', 'jo@example.com')
  mkdirSync(path.join(directory, 'src/deep'), { recursive: true })
  const files = {
    '.gitignore': 'ignored\n*.o\n',
    a: 'a\n',
    mine: 'mine\n',
    'src/b': 'b\n',
    'src/deep/c': 'c\n',
    'run.sh': 'x\n',
  }
  for (const [name, content] of Object.entries(files)) writeFileSync(path.join(directory, name), content)
  writeFileSync(path.join(directory, 'kept.o'), 'kept\n')
  git(directory, 'add', '-A')
  git(directory, 'add', '-f', 'kept.o')
  git(directory, 'commit', '-qm', 'first')
  writeFileSync(path.join(directory, 'left.o'), 'left\n')
  for (const hook of [
    'pre-commit',
    'post-commit',
    'reference-transaction',
    'commit-msg',
    'post-index-change',
  ]) {
    const file = path.join(directory, '.git/hooks', hook)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, `#!/bin/sh\ntouch '${directory}/.git/ran-${hook}'\n`)
    chmodSync(file, 0o755)
  }
  writeFileSync(path.join(directory, 'mine'), 'mine, not committed\n')
  writeFileSync(path.join(directory, 'staged'), 'staged\n')
  git(directory, 'add', 'staged')
}

const inRepository = inWorkspaceOver(({ directory }) => repository(directory))

/** Everything of the user's checkout that a commit must not touch. */
const userState = (directory: string) => {
  const place = git(directory, 'rev-parse', '--absolute-git-dir').trim()
  return [
    execFileSync('git', ['status', '--porcelain=v2', '--branch', '--ignored'], { cwd: directory }).toString(
      'hex',
    ),
    readFileSync(path.join(place, 'index')).toString('hex'),
    readFileSync(path.join(place, 'HEAD'), 'utf8'),
    git(directory, 'rev-parse', 'HEAD'),
  ]
}

const CHANGES = `echo changed >a; rm -r src/deep; echo new >src/new; ln -s a link; chmod +x run.sh
  echo x >ignored; echo x >kept.o; echo x >left.o; mkdir obj; echo y >obj/x.o; echo z >"$(printf 'st"r\\nange \\303\\244')"; mkfifo pipe`

const committed = (directory: string, name: string) =>
  git(directory, 'diff', '--raw', '--no-renames', '--abbrev=4', `${name}~`, name)
    .replace(/^:(\S+) (\S+) \S+ \S+ /gm, '$1 $2 ')
    .trim()
    .split('\n')

describe('a commit to a branch', () => {
  it(
    'has the changes, and leaves the checkout, the index and HEAD as they are',
    inRepository(async ({ sandbox, directory }) => {
      await sandbox.exec(CHANGES)
      const before = userState(directory)
      const traces = () => readdirSync(path.join(directory, '.git')).filter((name) => name.startsWith('ran-'))
      for (const name of traces()) rmSync(path.join(directory, '.git', name))
      const { applied, skipped, id } = await sandbox.workspace.commit({
        branch: 'agent/1',
        message: 'work\n\nmore',
      })
      expect(traces()).toEqual([])
      expect(userState(directory)).toEqual(before)
      expect({ applied, skipped }).toEqual({
        applied: 8,
        skipped: [{ path: 'pipe', reason: 'git has no form for it' }],
      })
      expect(git(directory, 'rev-parse', 'agent/1').trim()).toBe(id)
      expect(git(directory, 'log', '-1', '--format=%an %ae %cn|%B|%P', 'agent/1').trim()).toBe(
        `Jo jo@example.com Jo|work\n\nmore\n|${git(directory, 'rev-parse', 'HEAD').trim()}`,
      )
      expect(committed(directory, 'agent/1')).toEqual([
        '100644 100644 M\ta',
        '100644 100644 M\tkept.o',
        '000000 120000 A\tlink',
        '100644 100755 M\trun.sh',
        '100644 000000 D\tsrc/deep/c',
        '000000 100644 A\tsrc/new',
        '000000 100644 A\t"st\\"r\\nange \\303\\244"',
      ])
      expect(git(directory, 'show', 'agent/1:a')).toBe('changed\n')
      expect(git(directory, 'fsck', '--strict')).toBe('')
      // The changes are still only in the workspace.
      expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('a\n')
      expect((await sandbox.exec('cat a')).stdout).toBe('changed\n')
    }),
  )

  it(
    'goes on with the branch, and has only the chosen paths',
    inRepository(async ({ sandbox, directory }) => {
      await sandbox.exec('echo 1 >a; echo 1 >src/b')
      await sandbox.workspace.commit({ branch: 'agent', message: 'one', paths: ['src'] })
      expect(committed(directory, 'agent')).toEqual(['100644 100644 M\tsrc/b'])
      await sandbox.exec('echo 2 >src/b; rm run.sh')
      await sandbox.workspace.commit({ branch: 'agent', message: 'two' })
      expect(committed(directory, 'agent')).toEqual([
        '100644 100644 M\ta',
        '100644 000000 D\trun.sh',
        '100644 100644 M\tsrc/b',
      ])
      await sandbox.exec('echo mine >run.sh; cp run.sh x; rm x')
      await sandbox.workspace.discard({ paths: ['src'] })
      await sandbox.workspace.commit({ branch: 'agent', message: 'three' })
      expect(git(directory, 'show', 'agent:src/b', 'agent:run.sh')).toBe('b\nmine\n')
      expect(git(directory, 'log', '--format=%s', 'agent').trim().split('\n')).toEqual([
        'three',
        'two',
        'one',
        'first',
      ])
      await sandbox.workspace.discard()
      expect(await sandbox.workspace.commit({ branch: 'none', message: 'nothing' })).toEqual({
        applied: 0,
        skipped: [],
      })
      expect(git(directory, 'branch', '--list', 'none')).toBe('')
    }),
  )

  it('works in a linked worktree, a submodule, and a directory below', async () => {
    const root = temporary('branch-')
    repository(root)
    const outer = temporary('outer-')
    const worktree = path.join(temporary('linked-'), 'tree')
    git(root, 'worktree', 'add', '-q', '-b', 'other', worktree)
    git(outer, 'init', '-q', '-b', 'main')
    git(outer, 'submodule', '--quiet', 'add', root, 'sub')
    git(outer, '-c', 'user.name=x', '-c', 'user.email=x@x', 'commit', '-qm', 'outer')
    for (const [name, value] of [
      ['user.name', 'x'],
      ['user.email', 'x@x'],
    ] as const)
      git(path.join(outer, 'sub'), 'config', name, value)
    for (const [cwd, file] of [
      [worktree, 'a'],
      [path.join(outer, 'sub'), 'a'],
      [path.join(root, 'src'), 'src/b'],
    ] as const) {
      const stateDir = temporary('state-')
      const sandbox = new Sandbox({ cwd, stateDir, workspace: 'copy-on-write' })
      const before = userState(cwd)
      await sandbox.exec(`echo changed >${path.basename(file)}`)
      const { id } = await sandbox.workspace.commit({ branch: 'agent/here', message: 'work' })
      expect(userState(cwd)).toEqual(before)
      expect(git(cwd, 'rev-parse', 'agent/here').trim()).toBe(id)
      expect(git(cwd, 'show', `agent/here:${file}`)).toBe('changed\n')
      expect(committed(cwd, 'agent/here')).toEqual([`100644 100644 M\t${file}`])
      git(cwd, 'branch', '-qD', 'agent/here')
      await sandbox.destroy()
    }
    // The name of the directory is not one of the agent's, but may be as strange.
    const odd = path.join(root, '"o\ndd" \u00fc')
    mkdirSync(odd)
    const below = new Sandbox({ cwd: odd, stateDir: temporary('state-'), workspace: 'copy-on-write' })
    await below.exec('echo x >new')
    await below.workspace.commit({ branch: 'odd', message: 'work' })
    await below.destroy()
    expect(git(root, 'show', `odd:${path.basename(odd)}/new`)).toBe('x\n')
    // Files of a submodule are not those of the repository around it.
    const sandbox = new Sandbox({ cwd: outer, stateDir: temporary('state-'), workspace: 'copy-on-write' })
    git(outer, 'config', 'user.name', 'x')
    git(outer, 'config', 'user.email', 'x@x')
    await sandbox.exec('echo changed >sub/a; echo new >new; git init -q made; echo x >made/x')
    expect(await sandbox.workspace.commit({ branch: 'agent', message: 'work' })).toMatchObject({
      applied: 1,
      skipped: [
        { path: 'made/x', reason: 'it is in another repository' },
        { path: 'sub/a', reason: 'it is in another repository' },
      ],
    })
    expect(committed(outer, 'agent')).toEqual(['000000 100644 A\tnew'])
    await sandbox.destroy()
  })

  it(
    'begins a repository that has none',
    inWorkspaceOver(({ directory }) => {
      git(directory, 'init', '-q', '-b', 'main')
      git(directory, 'config', 'user.name', 'x')
      git(directory, 'config', 'user.email', 'x@x')
      writeFileSync(path.join(directory, 'old'), 'old\n')
    })(async ({ sandbox, directory }) => {
      await sandbox.exec('echo new >new')
      await sandbox.workspace.commit({ branch: 'agent', message: 'first' })
      expect(git(directory, 'ls-tree', '-r', '--name-only', 'agent')).toBe('new\n')
      expect(await rejectionOf(sandbox.workspace.commit({ branch: 'main', message: 'x' }))).toMatchObject({
        code: 'INVALID_OPTION',
      })
    }),
  )

  it(
    'is refused with a remedy where it is not possible',
    inRepository(async ({ sandbox, directory }) => {
      await sandbox.exec('echo changed >a')
      const refused = async (options: object, code: string, message: RegExp) => {
        const error = await rejectionOf(sandbox.workspace.commit(options))
        expect(error).toMatchObject({ code, message: expect.stringMatching(message) })
      }
      const invalid = 'INVALID_OPTION'
      await refused({ branch: 'x' }, invalid, /^branch needs a message$/)
      await refused({ message: 'x' }, invalid, /^message needs a branch$/)
      await refused({ branch: 'x', message: ' ' }, invalid, /^message must be 1 to 65536 characters/)
      for (const branch of ['a..b', '-x', 'a b', 'x.lock', '@{-1}', 'a/../b', 'HEAD', 'refs/heads/x'])
        await refused({ branch, message: 'x' }, invalid, /is no name that git allows for a branch$/)
      await refused({ branch: 'main', message: 'x' }, invalid, /^branch 'main' is checked out/)
      await refused(
        { branch: 'x', message: 'x', paths: ['src'] },
        'FILE_NOT_FOUND',
        /^'src' names no change$/,
      )
      git(directory, 'branch', 'old')
      for (const branch of ['old/1', 'old/1/2'])
        await refused({ branch, message: 'x' }, invalid, /cannot be beside the branch 'old'/)
      git(directory, 'branch', 'deep/1/2')
      for (const branch of ['deep', 'deep/1'])
        await refused({ branch, message: 'x' }, invalid, /cannot be beside the branch 'deep\/1\/2'/)
      await sandbox.workspace.commit({ branch: 'deep/1/3', message: 'x' })
      git(directory, 'commit', '-qm', 'second')
      await refused({ branch: 'old', message: 'x' }, invalid, /does not have the commit that is checked out/)
    }),
  )

  it(
    'takes back no commit of another sandbox, unless it is forced',
    inRepository(async ({ sandbox, directory }) => {
      const files = (branch: string) => git(directory, 'ls-tree', '-r', '--name-only', branch).split('\n')
      const conflict = {
        code: 'WORKSPACE_CONFLICT',
        message: expect.stringMatching(/^branch 'agent' has commits/),
      }
      await sandbox.exec('echo of all >of-all')
      await sandbox.workspace.commit({ branch: 'agent', message: 'of all' })
      const [one, two] = await sandbox.fork(2)
      if (one === undefined || two === undefined) throw new Error('there are no forks')
      await one.exec('echo 1 >of-one')
      await two.exec('echo 2 >of-two')
      // Forks go on with what their parent has committed, and one of them is first.
      const commits = [one, two].map((fork) =>
        fork.workspace.commit({ branch: 'agent', message: 'of a fork' }),
      )
      const ends = await Promise.allSettled(commits)
      const refused = ends.flatMap((end) => (end.status === 'rejected' ? [end.reason] : []))
      expect(refused).toEqual([expect.objectContaining(conflict)])
      const [first, second] = ends[0]?.status === 'fulfilled' ? [one, two] : [two, one]
      const [name, other] = first === one ? ['of-one', 'of-two'] : ['of-two', 'of-one']
      expect(files('agent')).toContain(name)
      expect(files('agent')).not.toContain(other)
      expect(await rejectionOf(second.workspace.commit({ branch: 'agent', message: 'again' }))).toMatchObject(
        conflict,
      )
      await first.exec('echo more >more')
      await first.workspace.commit({ branch: 'agent', message: 'more' })
      // What has the work of both goes on.
      const { sandbox: merged } = await Sandbox.merge([second, first])
      await merged.workspace.commit({ branch: 'agent', message: 'both' })
      expect(files('agent')).toEqual(expect.arrayContaining(['of-all', 'of-one', 'of-two', 'more']))
      await second.workspace.commit({ branch: 'agent', message: 'forced', force: true })
      expect(files('agent')).not.toContain('more')
      expect(git(directory, 'log', '--format=%s', 'agent').trim().split('\n').slice(0, 2)).toEqual([
        'forced',
        'both',
      ])
      for (const each of [one, two, merged]) await each.destroy()
    }),
  )

  it('needs a repository', async () => {
    const sandbox = new Sandbox({
      cwd: temporary('none-'),
      stateDir: temporary('state-'),
      workspace: 'copy-on-write',
    })
    await sandbox.exec('echo new >new')
    expect(await rejectionOf(sandbox.workspace.commit({ branch: 'x', message: 'x' }))).toMatchObject({
      code: 'WORKSPACE_UNSUPPORTED',
      message: expect.stringMatching(/ is in no repository of git: /),
    })
    await sandbox.destroy()
  })
})
