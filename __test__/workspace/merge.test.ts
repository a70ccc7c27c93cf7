/** Merges: sandboxes with the changes of several others. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type MergeConflict, type MergeOptions, Sandbox, SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { hasGroups, inWorkspaceOver } from '../helpers/in-workspace.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const TEN = Array.from({ length: 10 }, (_, line) => `line ${line}\n`)

const inWorkspace = inWorkspaceOver(({ directory }) => {
  const write = (name: string, content: string | Buffer) => writeFileSync(path.join(directory, name), content)
  mkdirSync(path.join(directory, 'old/deep'), { recursive: true })
  write('lines', TEN.join(''))
  write('other', 'other\n')
  write('binary', Buffer.from([1, 0, 2]))
  write('old/deep/file', 'file\n')
  write('old/file', 'file\n')
})

/** Runs one command in a fork each, merges the forks, and destroys all of them after the test. */
async function withMerged(
  sandbox: Sandbox,
  commands: string[],
  options: MergeOptions,
  test: (merged: Sandbox, conflicts: MergeConflict[], forks: Sandbox[]) => Promise<void>,
): Promise<void> {
  const forks = await sandbox.fork(commands.length)
  try {
    const results = await Promise.all(forks.map((fork, at) => fork.exec(commands[at] ?? '')))
    expect(results.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual(commands.map(() => [0, '']))
    const { sandbox: merged, conflicts } = await Sandbox.merge(forks, options)
    try {
      await test(merged, conflicts, forks)
    } finally {
      await merged.destroy()
    }
  } finally {
    await Promise.all(forks.map((fork) => fork.destroy()))
  }
}

const output = async (sandbox: Sandbox, command: string) => (await sandbox.exec(command)).stdout

const listed = async (sandbox: Sandbox) =>
  (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)

const edit = (line: number, text: string) => `sed -i '${line + 1}s/.*/${text}/' lines`

/** Fails unless there is a conflict, and returns what the error has. */
async function conflictOf(sandbox: Sandbox, commands: string[]): Promise<SandboxError> {
  const error = await rejectionOf(withMerged(sandbox, commands, {}, () => Promise.resolve()))
  expect(error).toMatchObject({ code: 'WORKSPACE_CONFLICT' })
  return error as SandboxError
}

const shown = ({ path, reason, sides }: MergeConflict) => `${path} ${reason} ${sides}`

describe('a merge', () => {
  it(
    'has the changes of all, by files and by lines',
    inWorkspace(async ({ sandbox, directory }) => {
      const commands = [
        `${edit(1, 'first')}; mkdir new; echo 1 >new/first; ln -s first new/link; rm other; chmod 700 old`,
        `${edit(4, 'second')}; mkdir new; echo 2 >new/second; chmod +x lines; mv old/deep old/moved`,
        `${edit(8, 'third')}; rm -r old/file; printf '\\0three' >binary; mkfifo pipe; echo same >same; mkdir -m 750 new-directory`,
        'echo same >same; echo four >fourth; touch -d @1 fourth; mkdir node_modules; cp -p fourth node_modules',
      ]
      await withMerged(sandbox, commands, {}, async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        const expected = TEN.map((line, at) => ({ 1: 'first\n', 4: 'second\n', 8: 'third\n' })[at] ?? line)
        expect(await output(merged, 'cat lines')).toBe(expected.join(''))
        expect(await listed(merged)).toEqual([
          'modified binary',
          'created fourth',
          'modified lines',
          'created new',
          'created new-directory',
          'created new/first',
          'created new/link',
          'created new/second',
          'created node_modules',
          'created node_modules/fourth',
          'metadata old',
          'deleted old/deep',
          'deleted old/deep/file',
          'deleted old/file',
          'created old/moved',
          'created old/moved/file',
          'deleted other',
          'created pipe',
          'created same',
        ])
        expect(await output(merged, 'stat -c "%a %n" lines old new-directory')).toBe(
          '755 lines\n700 old\n750 new-directory\n',
        )
        // What is generated keeps its time, so that builds notice the sources.
        const newer = 'stat -c %Y node_modules/fourth; find fourth -newermt @1000000000'
        expect(await output(merged, newer)).toBe('1\nfourth\n')
        // Nothing is real before the commit.
        expect(readdirSync(directory)).not.toContain('fourth')
        await merged.workspace.commit()
        expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(expected.join(''))
        expect(readdirSync(directory).sort()).toEqual(
          ['binary', 'fourth', 'lines', 'new', 'new-directory', 'node_modules', 'old', 'pipe', 'same'].sort(),
        )
      })
    }),
  )

  it(
    'follows the rules of .gitattributes in the real directory',
    inWorkspace(async ({ sandbox, directory }) => {
      writeFileSync(
        path.join(directory, '.gitattributes'),
        'lines merge=union\nother -merge\nold/file merge=own\n',
      )
      // Git has no driver of this name: the file is text.
      execFileSync('git', ['-C', directory, 'init', '-q'])
      const commands = ['one', 'two'].map((name) => {
        const hides = name === 'one' ? `echo '* merge=binary' >.gitattributes; ` : ''
        return `${hides}echo '${name}' | tee -a lines >old/file; ${edit(name === 'one' ? 1 : 5, name)}; echo ${name} >other`
      })
      await withMerged(sandbox, commands, { onConflict: 'markers' }, async (merged, conflicts) => {
        expect(conflicts.map(shown)).toEqual(['old/file content 0,1', 'other binary 0,1'])
        const expected = TEN.map((line, at) => ({ 1: 'one\n', 5: 'two\n' })[at] ?? line)
        expect(await output(merged, 'cat lines')).toBe([...expected, 'one\n', 'two\n'].join(''))
        expect(await output(merged, 'cat other old/file')).toBe(
          'one\n<<<<<<< side 0\none\n=======\ntwo\n>>>>>>> side 1\n',
        )
        expect(await output(merged, 'ls')).toBe('binary\nlines\nold\nother\n')
      })
    }),
  )

  it(
    'has the sessions of the first sandbox, and is independent',
    inWorkspace(async ({ sandbox }) => {
      const commands = ['value=first; cd old; echo 1 >one', 'value=second; echo 2 >two']
      await withMerged(sandbox, commands, {}, async (merged, _, [first, second]) => {
        expect(merged).toBeInstanceOf(Sandbox)
        expect(await output(merged, 'echo $value; basename "$PWD"; cat one ../two')).toBe(
          'first\nold\n1\n2\n',
        )
        await merged.exec('echo merged >one')
        await first?.exec('echo later >one')
        expect(await output(merged, 'cat one')).toBe('merged\n')
        expect(await listed(second as Sandbox)).toEqual(['created two'])
        // It is a sandbox like any other.
        const again = await merged.fork()
        await again.exec('echo again >again')
        const both = await Sandbox.merge([merged, again])
        expect(await output(both.sandbox, 'cat again one')).toBe('again\nmerged\n')
        await Promise.all([again.destroy(), both.sandbox.destroy()])
      })
    }),
  )

  it(
    'goes on when its sides have ended',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('echo parent >parent')
      const [first, second] = await sandbox.fork(2)
      await second?.exec('echo 2 >two')
      const { sandbox: merged } = await Sandbox.merge([first as Sandbox, second as Sandbox])
      await Promise.all([first?.destroy(), second?.destroy()])
      expect(await output(merged, 'cat parent two lines')).toBe(`parent\n2\n${TEN.join('')}`)
      await merged.destroy()
    }),
  )

  it(
    'takes a sandbox with its forks, also of different moments',
    inWorkspace(async ({ sandbox }) => {
      const early = await sandbox.fork()
      await early.exec(edit(1, 'early'))
      await sandbox.exec(`${edit(3, 'parent')}; echo between >between`)
      const late = await sandbox.fork()
      await late.exec(`${edit(5, 'late')}; rm between`)
      const child = await late.fork()
      await child.exec(edit(7, 'child'))
      await sandbox.exec(edit(9, 'last'))
      const { sandbox: merged } = await Sandbox.merge([early, sandbox, late, child])
      expect(await output(merged, 'grep -vn line lines; ls')).toBe(
        '2:early\n4:parent\n6:late\n8:child\n10:last\nbinary\nlines\nold\nother\n',
      )
      await Promise.all([early, late, child, merged].map((one) => one.destroy()))
    }),
  )
})

describe('a conflict', () => {
  it(
    'rejects with the sides, the paths and the lines, and leaves nothing',
    inWorkspace(async ({ sandbox, directory }) => {
      const commands = [
        `${edit(2, 'first')}; rm other`,
        edit(7, 'x'),
        `${edit(2, 'third')}; ${edit(7, 'y')}; echo z >other`,
      ]
      const error = await conflictOf(sandbox, commands)
      expect(error.message).toBe(
        "the changes of 'lines' and 1 more do not go together, those of sandboxes[0] and sandboxes[1] and sandboxes[2]: see conflicts, or use onConflict: 'markers'",
      )
      expect(error.paths).toEqual(['lines', 'other'])
      expect(error.conflicts).toEqual([
        {
          path: 'lines',
          reason: 'content',
          sides: [0, 1, 2],
          hunks: [
            { line: 3, ours: 'first\n', theirs: 'third\n' },
            { line: 8, ours: 'x\n', theirs: 'y\n' },
          ],
        },
        { path: 'other', reason: 'deleted', sides: [0, 2], hunks: [] },
      ])
      expect(await output(sandbox, 'cat lines')).toBe(TEN.join(''))
      expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(TEN.join(''))
    }),
  )

  it(
    'is marked in the file if the caller wants it, and can be resolved there',
    inWorkspace(async ({ sandbox, directory }) => {
      const commands = [
        `${edit(2, 'first')}; rm other`,
        edit(2, 'second'),
        `${edit(9, 'last')}; echo changed >other`,
      ]
      await withMerged(sandbox, commands, { onConflict: 'markers' }, async (merged, conflicts) => {
        expect(conflicts.map(shown)).toEqual(['lines content 0,1', 'other deleted 0,2'])
        const marked = '<<<<<<< side 0\nfirst\n=======\nsecond\n>>>>>>> side 1\n'
        expect(await output(merged, 'cat lines other')).toBe(
          [...TEN.slice(0, 2), marked, ...TEN.slice(3, 9), 'last\nchanged\n'].join(''),
        )
        await merged.exec("sed -i '/^[<=]/d; /^>/d; /^second/d' lines")
        await merged.workspace.commit()
        expect(readFileSync(path.join(directory, 'lines'), 'utf8')).toBe(
          [...TEN.slice(0, 2), 'first\n', ...TEN.slice(3, 9), 'last\n'].join(''),
        )
      })
    }),
  )

  const marked = (first: string, second: string) =>
    `<<<<<<< side 0\n${first}=======\n${second}>>>>>>> side 1\n`
  /** The commands of two sides, the conflicts, and what shows the result and prints. */
  const cases: Array<[string, string, string, conflicts: string[], show: string, shows: string]> = [
    [
      'binary content',
      `printf '\\0a' >binary`,
      `printf '\\0b' >binary`,
      ['binary binary 0,1'],
      'cat binary',
      '\0a',
    ],
    [
      'permissions',
      'chmod 600 binary',
      'chmod 755 binary',
      ['binary mode 0,1'],
      'stat -c %a binary',
      '600\n',
    ],
    ['a deletion and a change', 'rm other', 'echo 2 >other', ['other deleted 0,1'], 'cat other', '2\n'],
    ['a change and a deletion', 'echo 1 >other', 'rm other', ['other deleted 0,1'], 'cat other', '1\n'],
    ['targets of links', 'ln -s a link', 'ln -s b link', ['link target 0,1'], 'readlink link', 'a\n'],
    ['a file and a link', 'echo 1 >new', 'ln -s other new', ['new kind 0,1'], 'cat new', '1\n'],
    [
      'a file and a directory',
      'echo 1 >new',
      'mkdir new; echo 2 >new/file',
      ['new kind 0,1', 'new/file kind 0,1'],
      'cat new',
      '1\n',
    ],
    [
      'a directory and a file',
      'mkdir new; echo 1 >new/file',
      'echo 2 >new',
      ['new kind 0,1'],
      'cat new/file',
      '1\n',
    ],
    [
      'a change in a directory, and a file in its place',
      'echo 1 >old/file',
      'rm -r old; echo 2 >old',
      ['old kind 0,1', 'old/file deleted 0,1'],
      'cat old/file',
      '1\n',
    ],
    [
      'a file in the place of a directory, and a change in it',
      'rm -r old; echo 1 >old',
      'echo 2 >old/file',
      ['old/file deleted 0,1'],
      'cat old',
      '1\n',
    ],
    ['two new files', 'echo 1 >new', 'echo 2 >new', ['new content 0,1'], 'cat new', marked('1\n', '2\n')],
    [
      'new files without a newline',
      'printf 1 >new',
      'printf 2 >new',
      ['new content 0,1'],
      'cat new',
      marked('1\n', '2\n'),
    ],
  ]
  for (const [name, first, second, expected, show, shows] of cases)
    it(
      `is found between ${name}`,
      inWorkspace(async ({ sandbox }) => {
        const error = await conflictOf(sandbox, [first, second])
        expect(error.conflicts?.map(shown)).toEqual(expected)
        await withMerged(sandbox, [first, second], { onConflict: 'markers' }, async (merged, conflicts) => {
          expect(conflicts.map(shown)).toEqual(expected)
          expect(await output(merged, show)).toBe(shows)
        })
      }),
    )

  it(
    'is none if both sides have done the same, or one has deleted a directory in which the other has only new files',
    inWorkspace(async ({ sandbox }) => {
      const same = `${edit(3, 'same')}; rm -r old/deep; ln -s x link; chmod 600 binary`
      await withMerged(
        sandbox,
        [`${same}; echo 1 >old/new`, `${same}; rm -r old`],
        {},
        async (merged, conflicts) => {
          expect(conflicts).toEqual([])
          expect(await output(merged, 'find old; readlink link')).toBe('old\nold/new\nx\n')
        },
      )
      await withMerged(sandbox, ['rm -r old', 'echo 2 >old/deep/new'], {}, async (merged) => {
        expect(await output(merged, 'find old')).toBe('old\nold/deep\nold/deep/new\n')
      })
    }),
  )
})

describe('sandboxes to merge', () => {
  it(
    'must come from one, and be of one directory',
    inWorkspace(async ({ sandbox, directory, stateDir }) => {
      const of = (cwd: string) => new Sandbox({ cwd, stateDir, workspace: 'copy-on-write' })
      const [unrelated, elsewhere, direct] = [
        of(directory),
        of(temporary('merge-')),
        new Sandbox({ stateDir }),
      ]
      const refused = (list: unknown, message: string | RegExp) =>
        expect(rejectionOf(Sandbox.merge(list as Sandbox[]))).resolves.toMatchObject({
          code: 'INVALID_OPTION',
          message: expect.stringMatching(message),
        })
      await refused([sandbox, unrelated], /^sandboxes\[1\] and sandboxes\[0\] do not come from one sandbox/)
      await refused([sandbox, elsewhere], /^sandboxes\[1\] has a workspace of .*, and sandboxes\[0\] one of /)
      await refused([sandbox], /^sandboxes must be a list of 2 to 256 sandboxes/)
      await refused([sandbox, {}], /^sandboxes\[1\] must be a sandbox of this program/)
      await refused([sandbox, sandbox], /^sandboxes\[1\] must be another sandbox than sandboxes\[0\]/)
      expect(await rejectionOf(Sandbox.merge([sandbox, direct]))).toMatchObject({
        code: 'WORKSPACE_NOT_ENABLED',
      })
      await elsewhere.destroy()
      expect(await rejectionOf(Sandbox.merge([sandbox, elsewhere]))).toMatchObject({
        code: 'SANDBOX_DESTROYED',
      })
      expect(await output(sandbox, 'cat other')).toBe('other\n')
      await Promise.all([unrelated, direct].map((one) => one.destroy()))
    }),
  )

  it(
    'are waited for, until the caller gives up',
    inWorkspace(async ({ sandbox }) => {
      const [first, second] = (await sandbox.fork(2)) as [Sandbox, Sandbox]
      const running = second.exec('until [ -e go ]; do sleep 0.01; done; echo now >read')
      const abort = new AbortController()
      const merging = rejectionOf(Sandbox.merge([first, second], { signal: abort.signal }))
      abort.abort()
      expect(await merging).toMatchObject({ code: 'ABORT_ERR' })
      const waiting = Sandbox.merge([first, second])
      await first.exec('true')
      await second.files.write('go', '')
      await running
      const { sandbox: merged } = await waiting
      expect(await output(merged, 'cat read')).toBe('now\n')
      await Promise.all([first, second, merged].map((one) => one.destroy()))
    }),
  )

  it(
    'go on when programs run in them, which busy: reject refuses',
    inWorkspace(async ({ sandbox }) => {
      if (!hasGroups) return
      const [first, second] = (await sandbox.fork(2)) as [Sandbox, Sandbox]
      await second.startProcess('while sleep 0.01; do date +%N >now; done')
      await second.exec('until [ -s now ]; do sleep 0.01; done')
      expect(await rejectionOf(Sandbox.merge([first, second], { busy: 'reject' }))).toMatchObject({
        code: 'WORKSPACE_BUSY',
      })
      const { sandbox: merged } = await Sandbox.merge([first, second])
      expect(await output(merged, 'ls now')).toBe('now\n')
      await second.exec('rm now; until [ -s now ]; do sleep 0.01; done')
      await Promise.all([first, second, merged].map((one) => one.destroy()))
    }),
  )
})

describe('a repository of git', () => {
  const git = (cwd: string, ...args: string[]) =>
    execFileSync('git', ['-c', 'user.name=x', '-c', 'user.email=x@x', ...args], { cwd, encoding: 'utf8' })

  it(
    'stays that of the first sandbox, with the objects and branches of all',
    inWorkspace(async ({ sandbox, directory }) => {
      git(directory, 'init', '-q', '-b', 'main')
      git(directory, 'add', '-A')
      git(directory, 'commit', '-qm', 'base')
      const identity = 'git config user.name x; git config user.email x@x'
      const commit = (branch: string, change: string) =>
        `${identity}; git checkout -q -b ${branch}; ${change}; git add -A; git commit -qm ${branch}`
      const commands = [commit('one', edit(1, 'one')), commit('two', edit(8, 'two')), 'git status >/dev/null']
      await withMerged(sandbox, commands, {}, async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        expect(
          await output(
            merged,
            'git fsck 2>&1; git branch; git status --porcelain; git diff --stat one two | tail -1',
          ),
        ).toBe('  main\n* one\n  two\n M lines\n 1 file changed, 2 insertions(+), 2 deletions(-)\n')
      })
    }),
  )

  it(
    'gives the same result as a merge by git, for random changes',
    inWorkspace(async ({ sandbox, directory }) => {
      let seed = Number(process.env.NACRE_SEED ?? 1) + 12345
      const below = (limit: number) => {
        seed = (Math.imul(seed, 1103515245) + 12345) >>> 0
        return (seed >>> 8) % limit
      }
      for (const name of readdirSync(directory)) rmSync(path.join(directory, name), { recursive: true })
      git(directory, 'init', '-q', '-b', 'main')
      const names = Array.from({ length: 60 }, (_, at) => `d${at % 5}/file ${at}`)
      for (const name of names) {
        mkdirSync(path.join(directory, path.dirname(name)), { recursive: true })
        writeFileSync(
          path.join(directory, name),
          Array.from({ length: 12 }, () => `${name} ${below(30)}\n`).join(''),
        )
      }
      git(directory, 'add', '-A')
      git(directory, 'commit', '-qm', 'base')
      const change = (side: number) =>
        names.flatMap((name) => {
          const edited = `sed -i '${1 + below(12)}s/.*/${side} ${below(2)}/' '${name}'`
          return [
            [edited, `rm '${name}'`, `chmod +x '${name}'`, `echo ${below(2)} >'${name} new'`][below(9)] ?? [],
          ].flat()
        })
      // Side by side: the merge of the first two is one of git's, and so is the next one with it.
      const sides = [1, 2, 3].map((side) => change(side).join('; '))
      sides.forEach((command, at) => {
        git(directory, 'checkout', '-q', '-b', `side-${at}`, 'main')
        execFileSync('bash', ['-c', command], { cwd: directory })
        git(directory, 'add', '-A')
        git(directory, 'commit', '-qm', `side ${at}`)
      })
      git(directory, 'checkout', '-q', 'main')
      const bySide = async (count: number) => {
        const found = await rejectionOf(
          withMerged(sandbox, sides.slice(0, count), {}, () => Promise.reject(new Error('no conflict'))),
        )
        return found instanceof SandboxError ? (found.paths ?? []) : []
      }
      const merge = (ours: string, theirs: string) => {
        const args = ['merge-tree', '--write-tree', '--name-only', '--no-messages', ours, theirs]
        try {
          return git(directory, ...args)
            .trim()
            .split('\n')
        } catch (error) {
          return (error as { stdout: string }).stdout.trim().split('\n')
        }
      }
      const [tree, ...conflicts] = merge('side-0', 'side-1')
      expect((await bySide(2)).sort()).toEqual(conflicts.sort())
      const options: MergeOptions = { onConflict: 'markers' }
      await withMerged(sandbox, sides.slice(0, 2), options, async (merged) => {
        const expected = temporary('merged-')
        execFileSync('bash', [
          '-c',
          `git -C '${directory}' -c tar.umask=0022 archive ${tree} | tar -x -C '${expected}'`,
        ])
        // Files that both have created, and deletions, are those of git, too.
        execFileSync('bash', [
          '-c',
          `find '${expected}' -type f -exec sed -i 's/^\\(<<<<<<<\\|>>>>>>>\\) side-/\\1 side /' {} +`,
        ])
        expect(await output(merged, 'find . -path ./.git -prune -o -type f -printf "%P %m\\n" | sort')).toBe(
          execFileSync('bash', ['-c', 'find . -type f -printf "%P %m\\n" | sort'], {
            cwd: expected,
            encoding: 'utf8',
          }),
        )
        const contents = 'find . -path ./.git -prune -o -type f -print0 | sort -z | xargs -0 cat'
        expect(await output(merged, contents)).toBe(
          execFileSync('bash', ['-c', contents], { cwd: expected, encoding: 'utf8' }),
        )
      })
    }),
  )
})
