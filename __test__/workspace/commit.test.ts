/** The changes of a copy-on-write workspace become a patch, become real, or are taken back. */
import { execFileSync } from 'node:child_process'
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxError, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { type Mode, modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const copyOnWrite: SandboxOptions = { workspace: 'copy-on-write' }

const hasGroups = new Sandbox().capabilities().cgroup === 'v2'
const withoutGroups: Mode = { name: 'without control groups', env: { NACRE_CONTAINMENT: 'subreaper' } }

function inWorkspace(test: (workplace: Workplace) => Promise<void>): () => Promise<void> {
  return () =>
    withSandbox(
      async (workplace) => {
        prepare(workplace)
        await test(workplace)
      },
      { options: copyOnWrite },
    )
}

function prepare({ directory }: Workplace): void {
  mkdirSync(path.join(directory, 'sub'))
  writeFileSync(path.join(directory, 'a'), 'one\n')
  writeFileSync(path.join(directory, 'sub/b'), 'two\n')
  writeFileSync(path.join(directory, 'tool'), '#!/bin/sh\n')
}

const CHANGE = `echo changed > a; rm -r sub; chmod +x tool; mkdir -p deep/er; ln -s ../a deep/link
  head -c 3000 /dev/urandom > deep/er/binary; printf 'no newline' > deep/text`
/** All changes but the directories, which a patch does not name. */
const CHANGED = ['a', 'deep/er/binary', 'deep/link', 'deep/text', 'sub/b', 'tool']

/** The content, the target or the kind of everything below a directory, with its mode. */
function tree(directory: string): Record<string, unknown> {
  const names = readdirSync(directory, { recursive: true, encoding: 'utf8' }).sort()
  const entries = names.map((name) => [name, entryAt(path.join(directory, name))])
  return Object.fromEntries(entries)
}

function entryAt(file: string): unknown {
  const stat = statSync(file, { throwIfNoEntry: false })
  try {
    return `-> ${readlinkSync(file)}`
  } catch {
    if (stat?.isDirectory() === true) return 'directory'
    return `${(stat?.mode ?? 0) & 0o777} ${readFileSync(file, 'latin1')}`
  }
}

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

  it(
    'takes paths and a limit, and is empty without changes',
    inWorkspace(async ({ sandbox }) => {
      expect(await sandbox.workspace.diff()).toHaveLength(0)
      await sandbox.exec(CHANGE)
      const patch = Buffer.from(await sandbox.workspace.diff({ paths: ['sub'] })).toString()
      expect(patch.match(/^diff --git/gm)).toHaveLength(1)
      expect(patch).toContain('deleted file mode 100644\n')
      const refused = rejectionOf(sandbox.workspace.diff({ maxBytes: patch.length - 1, paths: ['sub'] }))
      expect(await refused).toMatchObject({ code: 'FILE_TOO_LARGE' })
      expect(await sandbox.workspace.diff({ maxBytes: patch.length, paths: ['sub'] })).toHaveLength(
        patch.length,
      )
      for (const maxBytes of [0, 1.5, 2 ** 31, '1'])
        expect(await rejectionOf(sandbox.workspace.diff({ maxBytes } as never))).toBeInstanceOf(TypeError)
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

  it(
    'applies only the given paths',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec(CHANGE)
      const before = tree(directory)
      const refused = await rejectionOf(sandbox.workspace.commit({ paths: ['a', 'nothing'] }))
      expect(refused).toMatchObject({ code: 'FILE_NOT_FOUND', path: 'nothing' })
      expect(tree(directory)).toEqual(before)
      expect(await sandbox.workspace.commit({ paths: [Buffer.from('deep/er'), `${directory}/a`] })).toEqual({
        ...{ applied: 4, skipped: [] },
      })
      expect(Object.keys(tree(directory))).toEqual([
        'a',
        'deep',
        'deep/er',
        'deep/er/binary',
        'sub',
        'sub/b',
        'tool',
      ])
      const left = (await sandbox.workspace.changes()).map(({ path }) => path)
      expect(left).toEqual(['deep/link', 'deep/text', 'sub', 'sub/b', 'tool'])
    }),
  )

  it(
    'applies nothing where other programs have changed the same paths, unless forced',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo mine > a; echo mine > new; echo mine > free; rm sub/b')
      writeFileSync(path.join(directory, 'a'), 'theirs\n')
      writeFileSync(path.join(directory, 'new'), 'theirs\n')
      writeFileSync(path.join(directory, 'sub/b'), 'theirs\n')
      const before = tree(directory)
      const refused = await rejectionOf(sandbox.workspace.commit())
      expect(refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a', 'new', 'sub/b'] })
      expect(tree(directory)).toEqual(before)
      expect(await sandbox.workspace.commit({ paths: ['free'], sync: false })).toMatchObject({ applied: 1 })
      expect(await sandbox.workspace.discard({ paths: ['sub'] })).toEqual({ discarded: 1 })
      expect(await sandbox.workspace.commit({ force: true })).toMatchObject({ applied: 2 })
      expect(tree(directory)).toMatchObject({ a: '420 mine\n', new: '420 mine\n', 'sub/b': '420 theirs\n' })
    }),
  )

  it(
    'skips what cannot be copied, and names it',
    inWorkspace(async ({ sandbox, directory }) => {
      const listen = `require('net').createServer().listen('socket', () => process.kill(process.pid, 'SIGKILL'))`
      await sandbox.exec(['node', '-e', listen])
      await sandbox.exec('mkfifo fifo')
      expect(await sandbox.workspace.commit()).toEqual({
        ...{ applied: 1, skipped: [{ path: 'socket', reason: 'a socket cannot be committed' }] },
      })
      expect(statSync(path.join(directory, 'fifo')).isFIFO()).toBe(true)
      expect(existsSync(path.join(directory, 'socket'))).toBe(false)
    }),
  )

  it(
    'refuses bad options by name',
    inWorkspace(async ({ sandbox }) => {
      for (const bad of [{ force: 1 }, { sync: 'no' }, { path: 'a' }, { paths: [] }])
        expect(await rejectionOf(sandbox.workspace.commit(bad as never))).toBeInstanceOf(TypeError)
      expect(await rejectionOf(sandbox.workspace.commit({ paths: ['/etc'] }))).toMatchObject({
        code: 'INVALID_PATH',
      })
    }),
  )
})

describe('a commit', () => {
  it.skipIf(!hasGroups)(
    'waits for running commands, and stops background processes for the moment',
    inWorkspace(async ({ sandbox, directory }) => {
      // Both files have the same lines, but for the moment between two lines.
      const loop = 'for (( i = 0; ; i++ )); do echo $i >> left; echo $i >> right; done'
      const background = await sandbox.startProcess(loop)
      await until(
        async () => (await sandbox.exec('[ -s right ]')).exitCode === 0 || undefined,
        () => 'the process prints nothing',
      )
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
        for (const call of [sandbox.workspace.commit(), sandbox.workspace.discard()]) {
          const { code, message } = (await rejectionOf(call)) as SandboxError
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
      await until(
        async () => (await sandbox.exec('ls -A')).stdout.includes('.nacre-') || undefined,
        () => 'nothing is being written',
      )
      expect(await sandbox.workspace.changes()).toEqual([])
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 0 })
      more()
      await written
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
      expect(readFileSync(path.join(directory, 'streamed'), 'utf8')).toBe('halfwhole')
    }),
  )
})

describe('an AbortSignal', () => {
  const calls = ['changes', 'diff', 'commit', 'discard'] as const

  it(
    'that is aborted before a call keeps it from being made',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec(CHANGE)
      const before = await sandbox.workspace.changes()
      for (const call of calls)
        expect(
          await rejectionOf(sandbox.workspace[call]({ signal: AbortSignal.abort('why') })),
        ).toMatchObject({
          ...{ name: 'AbortError', code: 'ABORT_ERR', cause: 'why' },
        })
      expect(existsSync(path.join(directory, 'deep'))).toBe(false)
      expect(await sandbox.workspace.changes()).toEqual(before)
      for (const call of calls)
        expect(await rejectionOf(sandbox.workspace[call]({ signal: {} } as never))).toBeInstanceOf(TypeError)
    }),
  )

  it(
    'ends the wait for running commands, and everything goes on',
    inWorkspace(async ({ sandbox, directory }) => {
      const running = sandbox.exec('echo changed > a; until [ -e ../go ]; do sleep 0.01; done; echo end')
      const other = await sandbox.createSession()
      for (const call of ['commit', 'discard'] as const) {
        const controller = new AbortController()
        const ended = rejectionOf(sandbox.workspace[call]({ signal: controller.signal }))
        // It waits for the call, which waits for the command.
        const behind = other.exec('echo behind')
        controller.abort()
        expect(await ended).toMatchObject({ name: 'AbortError', message: `the ${call} was aborted` })
        expect((await behind).stdout).toBe('behind\n')
      }
      writeFileSync(path.join(directory, '../go'), '')
      expect((await running).stdout).toBe('end\n')
      expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('one\n')
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
    }),
  )

  it(
    'does not end a commit that has begun',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('for i in {1..500}; do echo $i > new-$i; done')
      const controller = new AbortController()
      const committed = sandbox.workspace.commit({ sync: false, signal: controller.signal })
      await until(
        () => readdirSync(directory).some((name) => /^(\.nacre-commit|new)-/.test(name)) || undefined,
        () => 'the commit does not begin',
      )
      controller.abort()
      expect(await committed).toEqual({ applied: 500, skipped: [] })
    }),
  )

  it(
    'stops a comparison, and the next one is whole',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec(CHANGE)
      const before = await sandbox.workspace.changes()
      const below = proc.descendants(process.pid)
      const keeper = below.find(({ pid }) => proc.commandLine(pid).includes('--workspace'))?.pid
      if (keeper === undefined) throw new Error('the keeper of the workspace is not there')
      for (const call of ['changes', 'diff'] as const) {
        const controller = new AbortController()
        expect(proc.signal(keeper, 'SIGSTOP')).toBe(true)
        const ended = rejectionOf(sandbox.workspace[call]({ signal: controller.signal }))
        const behind = rejectionOf(sandbox.workspace.diff({ signal: controller.signal }))
        controller.abort()
        for (const error of [await ended, await behind])
          expect(error).toMatchObject({ name: 'AbortError', message: 'the comparison was aborted' })
        proc.signal(keeper, 'SIGCONT')
        expect(await sandbox.workspace.changes()).toEqual(before)
      }
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
