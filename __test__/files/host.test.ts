/** Copies between this machine and a sandbox, and calls for many files. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { itHolds } from '../contract/helper.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

const modeOf = (file: string) => statSync(file).mode & 0o777

/** A tree with modes, an empty directory, a name that is not UTF-8, and links that lead out of it. */
function makeTree(root: string): void {
  mkdirSync(path.join(root, 'inner/empty'), { recursive: true })
  writeFileSync(path.join(root, 'tool'), '#!/bin/sh\n')
  chmodSync(path.join(root, 'tool'), 0o750)
  writeFileSync(Buffer.from(`${path.join(root, 'inner')}/odd\xff`, 'latin1'), 'odd')
  writeFileSync(path.join(root, 'inner/large'), Buffer.alloc(3_000_001, 'x'))
  chmodSync(path.join(root, 'inner'), 0o710)
  writeFileSync(path.join(path.dirname(root), 'secret'), 'secret')
  symlinkSync('../secret', path.join(root, 'link'))
  symlinkSync('..', path.join(root, 'above'))
}

function expectTree(root: string): void {
  expect(readdirSync(root).sort()).toEqual(['inner', 'tool'])
  expect(readdirSync(path.join(root, 'inner')).length).toBe(3)
  expect(readFileSync(Buffer.from(`${path.join(root, 'inner')}/odd\xff`, 'latin1'), 'utf8')).toBe('odd')
  expect(readFileSync(path.join(root, 'inner/large')).equals(Buffer.alloc(3_000_001, 'x'))).toBe(true)
  expect([modeOf(path.join(root, 'tool')), modeOf(path.join(root, 'inner'))]).toEqual([0o750, 0o710])
}

describe('copyIn and copyOut', () => {
  itHolds('say what is in the way, and make parents for a file, too', async ({ sandbox }) => {
    const host = temporary('nacre-host-')
    mkdirSync(path.join(host, 'empty'))
    writeFileSync(path.join(host, 'file'), 'here')
    await sandbox.exec('mkdir there; echo there > there/file')
    for (const [copy, code] of [
      [() => sandbox.files.copyIn(path.join(host, 'empty'), 'there/file'), 'NOT_A_DIRECTORY'],
      [() => sandbox.files.copyOut('there', path.join(host, 'file')), 'NOT_A_DIRECTORY'],
      [() => sandbox.files.copyOut('there/file', path.join(host, 'empty')), 'IS_A_DIRECTORY'],
    ] as const)
      expect(await rejectionOf(copy())).toMatchObject({ code, kind: 'conflict' })
    await sandbox.files.copyOut('there/file', path.join(host, 'new/parent/file'))
    expect(readFileSync(path.join(host, 'new/parent/file'), 'utf8')).toBe('there\n')
    expect(readFileSync(path.join(host, 'file'), 'utf8')).toBe('here')
  })

  itHolds('copy trees with their modes, and follow no link', async ({ sandbox, directory }) => {
    const host = temporary('nacre-host-')
    const root = path.join(host, 'tree')
    makeTree(root)
    const there = await sandbox.files.copyIn(root, 'a/copy')
    expect(there).toEqual({
      ...{ files: 3, directories: 3, bytes: 3_000_014 },
      skipped: expect.arrayContaining([path.join(root, 'link'), path.join(root, 'above')]),
    })
    expectTree(path.join(directory, 'a/copy'))
    symlinkSync('/etc/passwd', path.join(directory, 'a/copy/link'))
    const back = await sandbox.files.copyOut('a/copy', pathToFileURL(path.join(host, 'new/back')))
    expect(back).toMatchObject({ files: 3, directories: 3, bytes: 3_000_014, skipped: ['a/copy/link'] })
    expectTree(path.join(host, 'new/back'))
    // Again, into what exists.
    expect(await sandbox.files.copyIn(root, 'a/copy')).toMatchObject({ files: 3 })
    expect(await sandbox.files.copyOut('a/copy', path.join(host, 'new/back'))).toMatchObject({ files: 3 })
  })

  itHolds('copy a file, which replaces another one', async ({ sandbox, directory }) => {
    const host = temporary('nacre-host-')
    writeFileSync(path.join(host, 'a'), 'new')
    chmodSync(path.join(host, 'a'), 0o600)
    writeFileSync(path.join(directory, 'b'), 'old and longer')
    expect(await sandbox.files.copyIn(path.join(host, 'a'), 'b')).toEqual({
      ...{ files: 1, directories: 0, bytes: 3, skipped: [] },
    })
    expect([readFileSync(path.join(directory, 'b'), 'utf8'), modeOf(path.join(directory, 'b'))]).toEqual([
      ...['new', 0o600],
    ])
    // A link at the target is replaced, and what it leads to is not written.
    writeFileSync(path.join(host, 'victim'), 'old')
    symlinkSync('victim', path.join(host, 'c'))
    await sandbox.files.copyOut('b', path.join(host, 'c'))
    expect([
      readFileSync(path.join(host, 'c'), 'utf8'),
      readFileSync(path.join(host, 'victim'), 'utf8'),
    ]).toEqual(['new', 'old'])
    expect(readdirSync(host).sort()).toEqual(['a', 'c', 'victim'])
  })

  itHolds('follow no link in a target of this machine', async ({ sandbox }) => {
    const host = temporary('nacre-host-')
    await sandbox.exec('mkdir -p tree/sub; echo new > tree/sub/file')
    mkdirSync(path.join(host, 'outside'))
    mkdirSync(path.join(host, 'copy'))
    symlinkSync('../outside', path.join(host, 'copy/sub'))
    expect(await rejectionOf(sandbox.files.copyOut('tree', path.join(host, 'copy')))).toMatchObject({
      ...{ code: 'NOT_A_DIRECTORY', path: path.join(host, 'copy/sub') },
    })
    expect(readdirSync(path.join(host, 'outside'))).toEqual([])
  })

  itHolds('are bounded, and leave no part of a file', async ({ sandbox, directory }) => {
    const host = temporary('nacre-host-')
    const root = path.join(host, 'tree')
    makeTree(root)
    const refused = { code: 'FILE_TOO_LARGE', kind: 'limit' }
    expect(await rejectionOf(sandbox.files.copyIn(root, 'in', { maxBytes: 1_000_000 }))).toMatchObject(
      refused,
    )
    expect(existsSync(path.join(directory, 'in/inner/large'))).toBe(false)
    await sandbox.exec('mkdir out; truncate -s 1T out/sparse; echo a > out/a')
    const target = path.join(host, 'out')
    expect(await rejectionOf(sandbox.files.copyOut('out', target, { maxBytes: 100_000 }))).toMatchObject(
      refused,
    )
    expect(readdirSync(target).filter((name) => name !== 'a')).toEqual([])
    const controller = new AbortController()
    const copying = rejectionOf(
      sandbox.files.copyOut('out', target, { signal: controller.signal, maxBytes: 2 ** 50 }),
    )
    controller.abort('enough')
    expect(await copying).toMatchObject({ name: 'AbortError', cause: 'enough' })
    expect(readdirSync(target).filter((name) => name !== 'a')).toEqual([])
  })

  itHolds('copy a directory into itself once', async ({ sandbox, directory }) => {
    await sandbox.exec('mkdir -p sub/x; echo 1 > sub/file')
    await sandbox.files.copyIn(directory, 'sub/y')
    expect(readdirSync(path.join(directory, 'sub/y/sub')).sort()).toEqual(['file', 'x'])
    await sandbox.files.copyOut('.', path.join(directory, 'sub/z'))
    expect(readdirSync(path.join(directory, 'sub/z/sub')).sort()).toEqual(['file', 'x', 'y'])
  })

  itHolds('reject with the path of what fails', async ({ sandbox, directory }) => {
    const host = temporary('nacre-host-')
    const missing = path.join(host, 'missing')
    expect(await rejectionOf(sandbox.files.copyIn(missing, 'a'))).toMatchObject({
      code: 'ENOENT',
      path: missing,
    })
    expect(await rejectionOf(sandbox.files.copyOut('missing', missing))).toMatchObject({
      ...{ code: 'FILE_NOT_FOUND', path: 'missing' },
    })
    writeFileSync(path.join(directory, 'a'), 'a')
    writeFileSync(path.join(host, 'file'), '')
    const below = path.join(host, 'file/none')
    expect(await rejectionOf(sandbox.files.copyOut('a', below))).toMatchObject({ code: 'ENOTDIR' })
    rmSync(path.join(host, 'file'))
    await sandbox.exec('mkfifo fifo')
    expect(await rejectionOf(sandbox.files.copyOut('fifo', missing))).toMatchObject({ code: 'INVALID_PATH' })
    expect(await rejectionOf(sandbox.files.copyIn('/dev/null', 'b'))).toMatchObject({
      code: 'INVALID_OPTION',
    })
    expect(readdirSync(host)).toEqual([])
  })
})

it('copyIn reads nothing outside of the tree while a program replaces a directory by a link', async () => {
  const { Sandbox } = await import('nacre')
  const host = temporary('nacre-host-')
  await using sandbox = new Sandbox({ cwd: path.join(host) })
  const tree = path.join(host, 'tree')
  mkdirSync(path.join(host, 'private'))
  writeFileSync(path.join(host, 'private/file'), 'secret')
  mkdirSync(path.join(tree, 'sub'), { recursive: true })
  writeFileSync(path.join(tree, 'sub/file'), 'public')
  let isOver = false
  const swap = async () => {
    while (!isOver) {
      renameSync(path.join(tree, 'sub'), path.join(tree, 'was'))
      symlinkSync('../private', path.join(tree, 'sub'))
      await new Promise((resolve) => setImmediate(resolve))
      rmSync(path.join(tree, 'sub'))
      renameSync(path.join(tree, 'was'), path.join(tree, 'sub'))
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const swapping = swap()
  const copied = new Set<string>()
  for (let round = 0; round < 100; round++) {
    await sandbox.files.copyIn(tree, `copy${round}`).catch((error) => expect(error.code).toMatch(/^E[A-Z]+$/))
    for (const name of ['sub', 'was']) {
      const file = path.join(host, `copy${round}`, name, 'file')
      if (existsSync(file)) copied.add(readFileSync(file, 'utf8'))
    }
  }
  isOver = true
  await swapping
  expect(copied).not.toContain('secret')
  await sandbox.files.copyIn(tree, 'last')
  expect(readFileSync(path.join(host, 'last/sub/file'), 'utf8')).toBe('public')
})

describe('writeMany', () => {
  itHolds('writes files in their order, until one fails', async ({ sandbox, directory }) => {
    const { files } = sandbox
    const written = await files.writeMany([
      { path: 'a/b', data: 'text', mode: 0o700 },
      { path: Buffer.from('c'), data: new Uint8Array([1, 2]) },
      {
        path: 'c',
        data: (async function* () {
          yield 'more'
        })(),
        append: true,
      },
    ])
    expect(written.map(({ name, size }) => [name, size])).toEqual([
      ['b', 4],
      ['c', 2],
      ['c', 6],
    ])
    expect(modeOf(path.join(directory, 'a/b'))).toBe(0o700)
    expect(await files.writeMany([])).toEqual([])
    const failed = await rejectionOf(
      files.writeMany([
        { path: 'one', data: '1' },
        { path: 'a', data: 'a directory is in the way' },
        { path: 'two', data: '2' },
      ]),
    )
    expect(failed).toMatchObject({ code: 'IS_A_DIRECTORY', path: 'a' })
    expect([existsSync(path.join(directory, 'one')), existsSync(path.join(directory, 'two'))]).toEqual([
      ...[true, false],
    ])
    for (const bad of [
      5,
      [5],
      [
        { path: 'three', data: '' },
        { path: 'x', data: 5 },
      ],
      [{ path: 'x', data: '', mod: 1 }],
    ])
      expect(await rejectionOf(files.writeMany(bad as never))).toMatchObject({ kind: 'option' })
    expect(existsSync(path.join(directory, 'three'))).toBe(false)
  })
})

describe('chmod', () => {
  itHolds('sets the permissions, and follows links', async ({ sandbox, directory }) => {
    const { files } = sandbox
    await sandbox.exec('mkdir d; echo > f; ln -s f link; ln -s none dangling')
    await files.chmod('f', 0o640)
    await files.chmod(Buffer.from('d'), 0o1770)
    expect([modeOf(path.join(directory, 'f')), (await files.stat('d'))?.mode]).toEqual([0o640, 0o1770])
    await files.chmod('link', 0o600)
    expect(modeOf(path.join(directory, 'f'))).toBe(0o600)
    for (const none of ['none', 'dangling'])
      expect(await rejectionOf(files.chmod(none, 0))).toMatchObject({ code: 'FILE_NOT_FOUND', path: none })
    for (const mode of [-1, 0o10000, '644', undefined])
      expect(await rejectionOf(files.chmod('f', mode as never))).toMatchObject({ code: 'INVALID_OPTION' })
  })
})
