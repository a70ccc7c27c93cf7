/** Copy-on-write workspaces are the same here and over HTTP. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Change } from 'nacre'
import { describe, expect } from 'vitest'
import { CHANGE, prepare, tree } from '../helpers/changes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { type ContractPlace, itHolds } from './helper.js'

/** Declares a test in a workspace over a directory with some files. */
function holds(name: string, test: (place: ContractPlace) => Promise<void>): void {
  const prepared = async (place: ContractPlace) => {
    prepare(place)
    await test(place)
  }
  itHolds(name, prepared, { options: { workspace: 'copy-on-write' } })
}

const listed = (changes: Change[]) => changes.map(({ type, path }) => `${type} ${path}`)

describe('a workspace', () => {
  holds('describes each change', async ({ sandbox }) => {
    await sandbox.exec('printf longer > a; chmod 640 sub/b; ln -s a link; mkdir -m 1777 dir; mkfifo fifo')
    const [a, dir, fifo, link, b] = await sandbox.workspace.changes()
    const was = { kind: 'file', size: 4, mode: 0o644 }
    expect({ ...a, pathBytes: Buffer.from(a?.pathBytes ?? []) }).toEqual({
      ...{ path: 'a', pathBytes: Buffer.from('a'), type: 'modified', kind: 'file' },
      ...{ size: 6, mode: 0o644, before: was },
    })
    expect(dir).toMatchObject({ type: 'created', kind: 'directory', size: 0, mode: 0o1777, before: null })
    expect(fifo).toMatchObject({ type: 'created', kind: 'fifo' })
    expect(link).toMatchObject({ type: 'created', kind: 'symlink', size: 1 })
    expect(b).toMatchObject({ path: 'sub/b', type: 'metadata', size: 4, mode: 0o640, before: was })
  })

  holds(
    'takes paths as text and bytes, absolute and with dots, and refuses those outside',
    async ({ sandbox, directory }) => {
      await sandbox.exec("echo changed > a; rm sub/b; echo new > new; touch $'odd\\xff'")
      const of = async (...paths: (string | Uint8Array)[]) =>
        listed(await sandbox.workspace.changes({ paths }))
      expect(await of('./sub/../a', `${directory}/sub`)).toEqual(['modified a', 'deleted sub/b'])
      expect(await of('.')).toHaveLength(4)
      expect(await of(Buffer.from('odd\xff', 'latin1'))).toEqual(['created odd\ufffd'])
      expect(await of('nothing')).toEqual([])
      for (const outside of ['..', '/etc', `${directory}x`, 'sub/../../x'])
        expect(await rejectionOf(of(outside))).toMatchObject({ code: 'INVALID_PATH' })
      for (const paths of [[], 'a', [1], null])
        expect(await rejectionOf(sandbox.workspace.changes({ paths } as never))).toBeInstanceOf(TypeError)
    },
  )

  itHolds('is not there by default', async ({ sandbox }) => {
    const { workspace } = sandbox
    const calls: Promise<unknown>[] = [
      workspace.info(),
      workspace.changes(),
      workspace.usage(),
      sandbox.checkpoint(),
      ...['1', 'none'].flatMap((id) => [sandbox.rollback(id), sandbox.deleteCheckpoint(id)]),
    ]
    for (const error of await rejectionsOf(calls))
      expect(error).toMatchObject({ code: 'WORKSPACE_NOT_ENABLED' })
    expect(await rejectionOf(workspace.delete())).toMatchObject({ code: 'INVALID_ID' })
  })
})

describe('workspace.diff', () => {
  holds('takes paths and a limit, and is empty without changes', async ({ sandbox }) => {
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
  })
})

describe('workspace.commit', () => {
  holds('applies only the given paths', async ({ sandbox, directory }) => {
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
  })

  holds(
    'applies nothing where other programs have changed the same paths, unless forced',
    async ({ sandbox, directory }) => {
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
    },
  )

  holds('skips what cannot be copied, and names it', async ({ sandbox, directory }) => {
    const listen = `require('net').createServer().listen('socket', () => process.kill(process.pid, 'SIGKILL'))`
    await sandbox.exec(['node', '-e', listen])
    await sandbox.exec('mkfifo fifo')
    expect(await sandbox.workspace.commit()).toEqual({
      ...{ applied: 1, skipped: [{ path: 'socket', reason: 'a socket cannot be committed' }] },
    })
    expect(statSync(path.join(directory, 'fifo')).isFIFO()).toBe(true)
    expect(existsSync(path.join(directory, 'socket'))).toBe(false)
  })

  holds('refuses paths outside of it', async ({ sandbox }) => {
    expect(await rejectionOf(sandbox.workspace.commit({ paths: ['/etc'] }))).toMatchObject({
      code: 'INVALID_PATH',
    })
  })
})

describe('an AbortSignal', () => {
  const calls = ['changes', 'diff', 'commit', 'discard'] as const

  holds('that is aborted before a call keeps it from being made', async ({ sandbox, directory }) => {
    await sandbox.exec(CHANGE)
    const before = await sandbox.workspace.changes()
    for (const call of calls)
      expect(await rejectionOf(sandbox.workspace[call]({ signal: AbortSignal.abort('why') }))).toMatchObject({
        ...{ name: 'AbortError', code: 'ABORT_ERR', cause: 'why' },
      })
    expect(existsSync(path.join(directory, 'deep'))).toBe(false)
    expect(await sandbox.workspace.changes()).toEqual(before)
  })

  holds('ends the wait for running commands, and everything goes on', async ({ sandbox, directory }) => {
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
  })

  holds('does not end a commit that has begun', async ({ sandbox, directory }) => {
    await sandbox.exec('for i in {1..500}; do echo $i > new-$i; done')
    const controller = new AbortController()
    const committed = sandbox.workspace.commit({ sync: false, signal: controller.signal })
    await until(
      () => readdirSync(directory).some((name) => /^(\.nacre-commit|new)-/.test(name)) || undefined,
      () => 'the commit does not begin',
    )
    controller.abort()
    expect(await committed).toEqual({ applied: 500, skipped: [] })
  })

  holds('stops a comparison, and the next one is whole', async ({ sandbox }) => {
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
  })
})
