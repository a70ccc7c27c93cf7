/** Merge drivers of git's configuration in merges of sandboxes. */
import { execFileSync, spawnSync } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { type MergeConflict, type MergeOptions, Sandbox, type SandboxError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { type Random, withRandom } from '../helpers/random.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const IDENTITY = ['-c', 'user.name=x', '-c', 'user.email=x@x', '-c', 'merge.renames=false']

const git = (cwd: string, ...args: string[]) =>
  execFileSync('git', [...IDENTITY, ...args], { cwd, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] })

/** A directory that is a repository with these drivers. */
function repository(directory: string, attributes: string, drivers: Record<string, string>): void {
  git(directory, 'init', '-q', '-b', 'main')
  writeFileSync(path.join(directory, '.gitattributes'), attributes)
  for (const [name, command] of Object.entries(drivers))
    git(directory, 'config', `merge.${name}.driver`, command)
}

const inRepository = (attributes: string, drivers: Record<string, string>, files: Record<string, string>) =>
  inWorkspaceOver(({ directory }) => {
    repository(directory, attributes, drivers)
    for (const [name, content] of Object.entries(files)) {
      mkdirSync(path.dirname(path.join(directory, name)), { recursive: true })
      writeFileSync(path.join(directory, name), content)
    }
  })

type Merged = (merged: Sandbox, conflicts: MergeConflict[]) => Promise<void>

/** Runs one command in a fork each, and merges the forks. */
async function merge(
  sandbox: Sandbox,
  commands: string[],
  test: Merged,
  options: MergeOptions = {},
): Promise<void> {
  const forks = await sandbox.fork(commands.length)
  try {
    for (const [at, fork] of forks.entries()) {
      const { exitCode, stderr } = await fork.exec(commands[at] ?? '')
      expect([exitCode, stderr]).toEqual([0, ''])
    }
    const { sandbox: merged, conflicts } = await Sandbox.merge(forks, options)
    try {
      await test(merged, conflicts)
    } finally {
      await merged.destroy()
    }
  } finally {
    await Promise.all(forks.map((fork) => fork.destroy()))
  }
}

const output = async (sandbox: Sandbox, command: string) => (await sandbox.exec(command)).stdout

/** The names in a directory, with hidden ones. */
const names = (sandbox: Sandbox) => output(sandbox, 'ls -A')

const markers = { onConflict: 'markers' } as const

describe('a merge driver', () => {
  it(
    'merges a file in the merged sandbox, from its root, and leaves nothing else',
    inRepository(
      '*.lock merge=list conflict-marker-size=9\n',
      { list: `sort -u %O %A %B >list && mv list %A && echo %L %P %S %X %Y "$(cat %O | wc -l)" >>log` },
      { 'deep/a.lock': 'base\n', 'run.sh': '', 'other.lock': 'other\n' },
    )(async ({ sandbox, directory }) => {
      const commands = [
        'echo one >>deep/a.lock; chmod 751 deep/a.lock; echo a >new.lock; echo only >other.lock',
        'echo two >>deep/a.lock; echo b >new.lock',
        'echo three >>deep/a.lock',
      ]
      await merge(sandbox, commands, async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        expect(await output(merged, 'cat deep/a.lock new.lock other.lock')).toBe(
          'base\none\nthree\ntwo\na\nb\nonly\n',
        )
        expect(await output(merged, 'stat -c %a deep/a.lock; cat log')).toBe(
          [
            '751',
            '9 deep/a.lock base side 0 side 1 1',
            '9 new.lock base side 0 side 1 0',
            '9 deep/a.lock base side 0 and 1 side 2 1',
            '',
          ].join('\n'),
        )
        expect(await names(merged)).toBe('.git\n.gitattributes\ndeep\nlog\nnew.lock\nother.lock\nrun.sh\n')
        expect((await merged.listSessions()).length).toBeLessThanOrEqual(1)
        expect(await merged.listProcesses()).toEqual([])
        expect((await merged.workspace.changes()).map((change) => change.path)).toEqual([
          'deep/a.lock',
          'log',
          'new.lock',
          'other.lock',
        ])
        await merged.workspace.commit()
        expect(readFileSync(path.join(directory, 'deep/a.lock'), 'utf8')).toBe('base\none\nthree\ntwo\n')
      })
      expect(readdirSync(directory)).not.toContain('list')
    }),
  )

  it(
    'gets any path as one word',
    inRepository(
      '*.odd merge=own\n',
      { own: `printf '%%s\\n' %P >>seen; cat %B >%A` },
      {},
    )(async ({ sandbox, directory }) => {
      const odd = [
        '-rf.odd',
        'a b.odd',
        `it's "q" \\!.odd`,
        ';$(touch x)`touch y`.odd',
        'new\nline.odd',
        'é%A.odd',
      ]
      const written = (text: string) =>
        odd.map((name) => `echo ${text} >./'${name.replaceAll("'", "'\\''")}'`).join('\n')
      const bytes = (text: string) => `echo ${text} >$'\\xff\\xfe.odd'`
      const commands = [`${written('1')}\n${bytes('1')}`, `${written('2')}\n${bytes('2')}`]
      await merge(sandbox, commands, async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        const { stdout } = await merged.exec('cat seen', { encoding: 'buffer' })
        const seen = [...odd.map((name) => Buffer.from(name)), Buffer.from('fffe2e6f6464', 'hex')]
        expect(Buffer.from(stdout).toString('hex')).toBe(
          Buffer.concat(seen.sort(Buffer.compare).flatMap((name) => [name, Buffer.from('\n')])).toString(
            'hex',
          ),
        )
        expect(await output(merged, 'cat ./*.odd | sort | uniq -c | xargs')).toBe('7 2\n')
        expect(await output(merged, 'ls x y 2>/dev/null')).toBe('')
      })
      expect(readdirSync(directory).sort()).toEqual(['.git', '.gitattributes'])
    }),
  )

  const content = (name: string) => `echo ${name} >a.own`
  /** A driver, the conflict, and what the file is afterwards. */
  const failures: Array<
    [name: string, driver: string, exitCode: number | null, output: RegExp, now: string]
  > = [
    ['finds a conflict', 'echo both >%A; echo sorry; exit 3', 3, /^sorry\n$/, 'both\n'],
    ['finds conflicts, as many as it can say', 'echo both >%A; exit 128', 128, /^$/, 'both\n'],
    ['fails', 'echo both >%A; echo broken >&2; exit 129', 129, /^broken\n$/, 'one\n'],
    ['is killed', 'echo both >%A; kill -9 $$', 137, /Killed/, 'one\n'],
    ['does not exist', 'no-such-driver %A', 127, /no-such-driver/, 'one\n'],
    ['deletes the result', 'rm %A', 255, /^nacre: the driver has left no result\n$/, 'one\n'],
    [
      'leaves a link as the result',
      'ln -sf /etc/passwd %A',
      255,
      /^nacre: the driver has left no result\n$/,
      'one\n',
    ],
    [
      'puts a directory in the place of the file',
      'rm a.own; mkdir a.own; echo x >a.own/x',
      255,
      /^(mv: .*\n)nacre: the result cannot replace the file\n$/,
      '',
    ],
    ['is not a program', 'if', 2, /Syntax error|syntax error/, 'one\n'],
  ]
  for (const [name, driver, exitCode, says, now] of failures)
    it(
      `that ${name} is a conflict`,
      inRepository(
        '*.own merge=own\n',
        { own: driver },
        { 'a.own': 'base\n' },
      )(async ({ sandbox }) => {
        const commands = [content('one'), content('two')]
        const expected = {
          ...{ path: 'a.own', reason: 'driver', sides: [0, 1], hunks: [] },
          driver: { name: 'own', exitCode, output: expect.stringMatching(says) },
        }
        const error = (await rejectionOf(merge(sandbox, commands, async () => {}))) as SandboxError
        expect(error).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a.own'], conflicts: [expected] })
        await merge(
          sandbox,
          commands,
          async (merged, conflicts) => {
            expect(conflicts).toEqual([expected])
            expect(await output(merged, 'cat a.own 2>/dev/null')).toBe(now)
            expect(await names(merged)).toBe('.git\n.gitattributes\na.own\n')
          },
          markers,
        )
      }),
    )

  it(
    'that says nothing has merged the file as it was',
    inRepository(
      '*.own merge=own\n',
      { own: 'true' },
      { 'a.own': 'base\n' },
    )(async ({ sandbox }) => {
      await merge(sandbox, [content('one'), content('two')], async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        expect(await output(merged, 'cat a.own')).toBe('one\n')
      })
    }),
  )

  it(
    'is killed when the caller gives up',
    inRepository(
      '*.own merge=own\n',
      {},
      { 'a.own': 'base\n' },
    )(async ({ sandbox, directory }) => {
      const pipe = path.join(temporary('pipe-'), 'pipe')
      execFileSync('mkfifo', [pipe])
      git(directory, 'config', 'merge.own.driver', `echo $$ >${pipe}; sleep 1000 & wait`)
      const abort = new AbortController()
      const merging = rejectionOf(
        merge(sandbox, [content('one'), content('two')], async () => {}, { signal: abort.signal }),
      )
      expect(await readFile(pipe, 'utf8')).toMatch(/^\d+\n$/)
      abort.abort()
      expect(await merging).toMatchObject({ code: 'ABORT_ERR' })
    }),
  )

  it(
    'is that of the real directory, whatever programs write',
    inRepository(
      '*.own merge=own\n',
      { own: 'echo real >%A' },
      { 'a.own': 'base\n', 'b.txt': 'base\n' },
    )(async ({ sandbox, directory }) => {
      const commands = ['one', 'two'].map(
        (name) =>
          `${content(name)}; echo ${name} >b.txt; git config merge.own.driver 'echo fake >%A'; git config merge.text.driver 'echo fake >%A'; echo '* merge=text' >.gitattributes; echo '* merge=text' >.git/info/attributes`,
      )
      await merge(
        sandbox,
        commands,
        async (merged, conflicts) => {
          expect(conflicts.map(({ path, reason }) => `${path} ${reason}`)).toEqual(['b.txt content'])
          expect(await output(merged, 'cat a.own')).toBe('real\n')
        },
        markers,
      )
      expect(existsSync(path.join(directory, '.git/info/attributes'))).toBe(false)
    }),
  )

  it(
    'also comes from .git/info/attributes, core.attributesFile, and the directories above',
    inWorkspaceOver(() => {})(async () => {
      const root = temporary('above-')
      const place = (name: string) => path.join(root, name)
      for (const directory of ['in/deep', 'config']) mkdirSync(place(directory), { recursive: true })
      repository(root, 'in/*.top merge=own\n*.both merge=own\n', { own: 'cat %B >%A; echo %P >>log' })
      writeFileSync(place('.git/info/attributes'), 'in/deep/x.info merge=own\n')
      writeFileSync(place('config/attributes'), '*.user merge=own\n*.both -merge\n')
      git(root, 'config', 'core.attributesFile', place('config/attributes'))
      const files = ['x.top', 'deep/x.info', 'x.user', 'x.both', 'deep/x.top']
      for (const name of files) writeFileSync(place(`in/${name}`), 'base\n')
      const cwd = place('in')
      const sandbox = new Sandbox({ cwd, stateDir: temporary('state-'), workspace: 'copy-on-write' })
      const commands = ['one', 'two'].map((name) => `tee ${files.join(' ')} <<<${name} >/dev/null`)
      await merge(
        sandbox,
        commands,
        async (merged, conflicts) => {
          expect(conflicts.map((conflict) => `${conflict.path} ${conflict.reason}`)).toEqual([
            'deep/x.top content',
          ])
          expect(await output(merged, 'cat log')).toBe('deep/x.info\nx.both\nx.top\nx.user\n')
        },
        markers,
      )
      await sandbox.destroy()
    }),
  )

  it(
    'obeys the isolation of the sandbox',
    inWorkspaceOver(
      ({ directory }) => {
        const outside = `${directory}-outside`
        repository(directory, '*.own merge=own\n', { own: `touch ${outside}; echo %P >%A` })
        writeFileSync(path.join(directory, 'a.own'), 'base\n')
      },
      { workspace: 'copy-on-write', isolation: 'workspace' },
    )(async ({ sandbox, directory }) => {
      await merge(sandbox, [content('one'), content('two')], async (merged, conflicts) => {
        expect(conflicts).toEqual([])
        expect(await output(merged, 'cat a.own')).toBe('a.own\n')
      })
      expect(existsSync(`${directory}-outside`)).toBe(false)
    }),
  )
})

/** Lines of which each side changes some. */
function version(random: Random, lines: string[]): string {
  const changed = lines.flatMap((line) => {
    if (random.below(8) > 0) return [line]
    return [[], [`${random.below(4)}`], [line, `new ${random.below(3)}`]][random.below(3)] ?? []
  })
  return changed.map((line) => `${line}\n`).join('')
}

it(
  'merges with drivers are those of git, for random files',
  inWorkspaceOver(() => {})(({ sandbox: _, directory }) =>
    withRandom(async (random) => {
      const drivers = {
        lines: 'git merge-file -q --marker-size=%L -L ours -L base -L theirs %A %O %B',
        union: 'cat %A %O %B | sort | uniq >%A.new; mv %A.new %A',
        named: 'echo %P %L >>%A; exit $(($(wc -l <%B) %% 3))',
        theirs: 'cat <%B >%A',
      }
      const attributes = [
        '*.lines merge=lines',
        '*.union merge=union',
        '*.named merge=named',
        '*.theirs merge=theirs',
        'wide* conflict-marker-size=11',
      ]
      repository(directory, attributes.map((line) => `${line}\n`).join(''), drivers)
      git(directory, 'add', '-A')
      git(directory, 'commit', '-qm', 'empty')
      const kinds = Object.keys(drivers)
      const sides = { base: temporary('base-'), ours: temporary('ours-'), theirs: temporary('theirs-') }
      for (let at = 0; at < 160; at++) {
        const name = `${random.below(2) === 0 ? 'wide' : 'file'} ${at}.${kinds[at % kinds.length]}`
        const lines = Array.from({ length: random.below(30) }, () => `line ${random.below(20)}`)
        if (random.below(6) > 0)
          writeFileSync(path.join(sides.base, name), lines.map((line) => `${line}\n`).join(''))
        for (const side of [sides.ours, sides.theirs])
          writeFileSync(path.join(side, name), version(random, lines))
      }
      cpSync(sides.base, directory, { recursive: true })
      git(directory, 'add', '-A')
      git(directory, 'commit', '-qm', 'base', '--allow-empty')
      // Merged by git, in a copy with the same configuration.
      const copy = temporary('copy-')
      cpSync(directory, copy, { recursive: true })
      for (const side of ['ours', 'theirs'] as const) {
        git(copy, 'checkout', '-qb', side, 'main')
        cpSync(sides[side], copy, { recursive: true })
        git(copy, 'add', '-A')
        git(copy, 'commit', '-qm', side)
      }
      git(copy, 'checkout', '-q', 'ours')
      spawnSync('git', [...IDENTITY, 'merge', '-q', '--no-commit', 'theirs'], { cwd: copy })
      const unmerged = git(copy, 'diff', '--name-only', '-z', '--diff-filter=U').split('\0').filter(Boolean)
      expect(unmerged.length).toBeGreaterThan(10)

      const sandbox = new Sandbox({
        cwd: directory,
        stateDir: temporary('state-'),
        workspace: 'copy-on-write',
      })
      const commands = [sides.ours, sides.theirs].map((side) => `cp ${side}/* .`)
      await merge(
        sandbox,
        commands,
        async (merged, conflicts) => {
          const paths = [...new Set(conflicts.map((conflict) => conflict.path))]
          expect(paths.sort()).toEqual(unmerged.sort())
          await merged.workspace.commit()
        },
        markers,
      )
      await sandbox.destroy()
      const files = readdirSync(copy).filter((name) => name !== '.git')
      expect(readdirSync(directory).sort()).toEqual([...files, '.git'].sort())
      for (const name of files)
        expect([name, readFileSync(path.join(directory, name), 'utf8')]).toEqual([
          name,
          readFileSync(path.join(copy, name), 'utf8'),
        ])
    }),
  ),
)
