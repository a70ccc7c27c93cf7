/** What commits to a branch store: the same as the user's `git add`, by the real attributes and configuration. */
import { execFileSync } from 'node:child_process'
import {
  appendFileSync,
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', args, { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] })

/** A filter that runs for many files, in git's protocol. It notes its starts and the paths. */
const LONG_RUNNING = `
const fs = require('node:fs')
const read = (length) => {
  const bytes = Buffer.alloc(length)
  for (let at = 0; at < length; ) {
    const count = fs.readSync(0, bytes, at, length - at)
    if (count === 0) process.exit(0)
    at += count
  }
  return bytes
}
const packet = () => {
  const length = Number.parseInt(read(4).toString(), 16)
  return length === 0 ? undefined : read(length - 4)
}
const packets = () => {
  const all = []
  for (let one = packet(); one !== undefined; one = packet()) all.push(one)
  return all
}
const send = (...all) => {
  const framed = all.map((one) => one && Buffer.concat([Buffer.from((one.length + 4).toString(16).padStart(4, '0')), Buffer.from(one)]))
  fs.writeSync(1, Buffer.concat(framed.map((one) => one ?? Buffer.from('0000'))))
}
fs.appendFileSync(process.argv[2], 'start in ' + process.cwd() + ' ' + Object.keys(process.env).filter((name) => /^GIT_(DIR|WORK_TREE|INDEX_FILE|CONFIG_PARAMETERS)$/.test(name)) + '\\n')
packets()
send('git-filter-server', 'version=2', undefined)
packets()
send('capability=clean', undefined)
for (;;) {
  const headers = packets().map(String)
  const content = Buffer.concat(packets())
  fs.appendFileSync(process.argv[2], headers.find((one) => one.startsWith('pathname=')))
  send('status=success', undefined, 'cleaned ' + content.length, undefined, undefined)
}
`

const ATTRIBUTES = `*.up filter=upper
*.relative filter=relative
*.path filter=path
*.process filter=process
*.text text
*.auto text=auto
*.crlf text eol=crlf
*.raw -text
*.id ident
*.utf16 text working-tree-encoding=UTF-16LE
*.none filter=none
*.old crlf
[attr]macro filter=upper text
*.macro macro
`

/** A repository with filters, and files that were committed before. */
function repository(directory: string, log: string): void {
  git(directory, 'init', '-q', '-b', 'main')
  const program = path.join(path.dirname(log), 'filter.cjs')
  writeFileSync(program, LONG_RUNNING)
  for (const [name, value] of [
    ['user.name', 'Jo'],
    ['user.email', 'jo@example.com'],
    ['filter.upper.clean', 'tr a-z A-Z'],
    ['filter.relative.clean', './tools/clean'],
    ['filter.path.clean', 'echo %f; cat'],
    ['filter.process.process', `'${process.execPath}' '${program}' '${log}'`],
    ['filter.process.required', 'true'],
  ] as const)
    git(directory, 'config', name, value)
  writeFileSync(path.join(directory, 'old.auto'), 'one\r\ntwo\r\n')
  writeFileSync(path.join(directory, 'old.text'), 'one\ntwo\n')
  mkdirSync(path.join(directory, 'tools'))
  writeFileSync(path.join(directory, 'tools/clean'), '#!/bin/sh\necho real; cat\n')
  chmodSync(path.join(directory, 'tools/clean'), 0o755)
  git(directory, 'add', '-A')
  writeFileSync(path.join(directory, '.gitattributes'), ATTRIBUTES)
  mkdirSync(path.join(directory, 'sub'))
  writeFileSync(path.join(directory, 'sub/.gitattributes'), '*.up -filter\n*.sub filter=upper\n')
  git(directory, 'add', '-A')
  git(directory, 'commit', '-qm', 'first')
  // Attributes that are not committed count, too.
  appendFileSync(path.join(directory, '.gitattributes'), '*.later filter=upper\n')
}

/** Writes files that each attribute changes. */
const CHANGES = `mkdir -p new/deep "odd 'dir'"
for name in a.up sub/a.up sub/a.sub new/deep/a.up "odd 'dir'/$(printf 'x\\ny').up" a.relative a.path sub/a.path a.none a.later a.macro; do
  printf 'text of\\r\\na file\\n' >"$name"
done
for name in a b new/c; do printf '%s content' "$name" >$name.process; done
for name in new.auto old.auto old.text a.text a.crlf a.raw a.plain a.old sub/x.text; do printf 'one\\r\\ntwo\\r\\n' >"$name"; done
printf 'lf\\n' >lf.text; printf '\\0\\r\\n' >binary.auto; : >empty.up; : >empty.process
printf '$Id: something $ $Id$\\n' >a.id; printf 'no id\\n' >b.id; printf 'a\\0\\r\\0\\n\\0' >a.utf16
ln -s a.up link.up; printf '#!/bin/sh\\n' >run.up; chmod +x run.up
head -c 200000 /dev/zero | tr '\\0' x >long.text; printf '\\r\\n' >>long.text; head -c 65535 long.text >edge.text; printf '\\r\\nx' >>edge.text`

/** The tree of a commit. */
const tree = (directory: string, commit: string, ...paths: string[]) =>
  git(directory, 'ls-tree', '-r', '-z', commit, '--', ...paths).split('\0')

const log = () => path.join(temporary('log-'), 'log')

describe('a commit to a branch', () => {
  for (const [name, settings] of [
    ['without other settings', []],
    ['with core.autocrlf', [['core.autocrlf', 'true']]],
    [
      'with core.autocrlf=input and a smudge filter',
      [
        ['core.autocrlf', 'input'],
        ['filter.none.smudge', 'cat'],
      ],
    ],
  ] as Array<[string, Array<[string, string]>]>)
    it(
      `stores what the user's git add stores, ${name}`,
      inWorkspaceOver(() => {})(async ({ sandbox, directory }) => {
        const file = log()
        repository(directory, file)
        for (const [setting, value] of settings) git(directory, 'config', setting, value)
        const copy = temporary('copy-')
        cpSync(directory, copy, { recursive: true })
        execFileSync('bash', ['-ec', CHANGES], { cwd: copy })
        git(copy, 'add', '-A')
        git(copy, 'commit', '-qm', 'all')

        await sandbox.exec(CHANGES)
        // What programs change of the rules does not count.
        const attack = `echo fake >tools/clean; git config filter.upper.clean 'echo fake'; git config filter.raw.clean 'echo fake'`
        await sandbox.exec(
          `${attack}; echo '* filter=raw' | tee .git/info/attributes new/.gitattributes >sub/.gitattributes`,
        )
        const before = [
          git(directory, 'status', '--porcelain=v2'),
          readFileSync(path.join(directory, '.git/index')).toString('hex'),
        ]
        writeFileSync(file, '')
        const { skipped } = await sandbox.workspace.commit({ branch: 'agent', message: 'all' })
        expect(skipped).toEqual([])
        expect([
          git(directory, 'status', '--porcelain=v2'),
          readFileSync(path.join(directory, '.git/index')).toString('hex'),
        ]).toEqual(before)
        const isRule = (entry: string) => /\t(.*\.gitattributes|tools\/clean)$/.test(entry)
        // That of the real directory differs from its commit, which the copy has committed.
        const own = tree(directory, 'agent').filter((entry) => !isRule(entry))
        expect(own).toEqual(tree(copy, 'HEAD').filter((entry) => !isRule(entry)))
        expect(
          git(directory, 'show', 'agent:a.up', 'agent:a.relative', 'agent:a.process', 'agent:sub/a.path'),
        ).toBe(
          'TEXT OF\r\nA FILE\nreal\ntext of\r\na file\ncleaned 9sub/a.path\ntext of\r\na file\n'.replaceAll(
            '\r',
            settings.length > 0 ? '' : '\r',
          ),
        )
        // One process for all files, as it would run for the user.
        const lines = readFileSync(file, 'utf8').trim().split('\n')
        expect(lines).toEqual([
          `start in ${directory} `,
          ...['a', 'b', 'empty', 'new/c'].map((name) => `pathname=${name}.process`),
        ])
        expect(git(directory, 'fsck', '--strict')).toBe('')
      }),
    )

  it(
    'is refused if a required filter fails, and another filter that fails leaves the content',
    inWorkspaceOver(() => {})(async ({ sandbox, directory }) => {
      repository(directory, log())
      git(directory, 'config', 'filter.upper.clean', 'echo no key >&2; exit 1')
      await sandbox.exec('echo text >a.up; echo text >b.plain')
      await sandbox.workspace.commit({ branch: 'optional', message: 'x' })
      expect(git(directory, 'show', 'optional:a.up')).toBe('text\n')
      git(directory, 'config', 'filter.upper.required', 'true')
      const error = (await rejectionOf(
        sandbox.workspace.commit({ branch: 'agent', message: 'x' }),
      )) as SandboxError
      expect(error).toMatchObject({ code: 'ENGINE_ERROR', path: 'a.up' })
      expect(error.message).toBe(
        "'a.up' is not committed: the filter 'upper' of git's configuration has failed (no key). `git add` would refuse such a file, too: repair the filter, set filter.upper.required to false, or leave the file out with `paths`",
      )
      git(directory, 'config', '--unset', 'filter.upper.clean')
      expect(await rejectionOf(sandbox.workspace.commit({ branch: 'agent', message: 'x' }))).toMatchObject({
        path: 'a.up',
      })
      expect(git(directory, 'branch', '--list', 'agent')).toBe('')
      // The workspace and the branch go on.
      await sandbox.workspace.commit({ branch: 'agent', message: 'x', paths: ['b.plain'] })
      expect(git(directory, 'show', 'agent:b.plain')).toBe('text\n')
    }),
  )

  it('filters in a linked worktree, a directory below, and a repository without a commit', async () => {
    const root = temporary('root-')
    repository(root, log())
    const worktree = path.join(temporary("linked it's %f "), 'tree')
    git(root, 'worktree', 'add', '-q', '-b', 'other', worktree)
    const fresh = temporary('fresh-')
    git(fresh, 'init', '-q', '-b', 'main')
    for (const [name, value] of [
      ['user.name', 'x'],
      ['user.email', 'x@x'],
      ['filter.upper.clean', 'tr a-z A-Z'],
    ] as const)
      git(fresh, 'config', name, value)
    writeFileSync(path.join(fresh, '.gitattributes'), '*.up filter=upper\n')
    for (const [cwd, file] of [
      [worktree, 'x.up'],
      [worktree, 'x.relative'],
      [path.join(root, 'sub'), 'sub/x.sub'],
      [fresh, 'x.up'],
    ] as const) {
      const sandbox = new Sandbox({ cwd, stateDir: temporary('state-'), workspace: 'copy-on-write' })
      await sandbox.exec(`echo changed >${path.basename(file)}`)
      await sandbox.workspace.commit({ branch: 'agent', message: 'work' })
      const expected = file.endsWith('relative') ? 'real\nchanged\n' : 'CHANGED\n'
      expect(git(cwd, 'show', `agent:${file}`)).toBe(expected)
      git(cwd, 'branch', '-qD', 'agent')
      await sandbox.destroy()
    }
    expect(existsSync(path.join(root, 'sub/x.sub'))).toBe(false)
  })
})
