/** Listing, describing, moving, copying and removing files, in this process and over HTTP. */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { itHolds } from '../contract/helper.js'
import { rejectionOf } from '../helpers/thrown.js'

itHolds('a list has the entries of a directory, sorted by path', async ({ sandbox, directory }) => {
  for (const name of ['b/x', 'b/c/y', 'a-b', 'a/z', 'B']) {
    mkdirSync(path.dirname(path.join(directory, name)), { recursive: true })
    writeFileSync(path.join(directory, name), name)
  }
  symlinkSync('b', path.join(directory, 'link'))
  const paths = async (...given: Parameters<typeof sandbox.files.list>) =>
    (await sandbox.files.list(...given)).map((file) => file.path)
  expect(await paths()).toEqual(['B', 'a', 'a-b', 'b', 'link'])
  expect(await paths('.', { recursive: true })).toEqual([
    'B',
    'a',
    'a-b',
    'a/z',
    'b',
    'b/c',
    'b/c/y',
    'b/x',
    'link',
  ])
  expect(await paths('.', { recursive: true, maxDepth: 2 })).toEqual([
    'B',
    'a',
    'a-b',
    'a/z',
    'b',
    'b/c',
    'b/x',
    'link',
  ])
  expect(await paths('b/')).toEqual(['b/c', 'b/x'])
  expect(await paths('link')).toEqual(['link/c', 'link/x'])
  expect(await paths(directory, { maxDepth: 1 })).toContain(path.join(directory, 'a-b'))
  const all = await sandbox.files.list()
  expect(all.find(({ name }) => name === 'link')).toMatchObject({ type: 'symlink', target: 'b' })
  expect(all.find(({ name }) => name === 'B')).toMatchObject({ type: 'file', size: 1 })
  expect(all.find(({ name }) => name === 'b')).toMatchObject({ type: 'directory' })
})

itHolds('long lists and deep trees are complete', async ({ sandbox, directory }) => {
  await sandbox.exec('mkdir many && cd many && touch $(seq 2345) && cd ..')
  expect(await sandbox.files.list('many')).toHaveLength(2345)
  const part = 'd'.repeat(200)
  await sandbox.exec(
    `mkdir deep; cd deep; for i in $(seq 40); do mkdir ${part}; cd -P ${part}; done; touch end; cd ${directory}`,
  )
  const list = await sandbox.files.list('deep', { recursive: true })
  expect(list).toHaveLength(41)
  expect(list.at(-1)?.name).toBe('end')
  await sandbox.files.copy('deep', 'copy', { recursive: true })
  expect(await sandbox.files.list('copy', { recursive: true })).toHaveLength(41)
  for (const name of ['deep', 'copy', 'many']) await sandbox.files.remove(name, { recursive: true })
  expect(readdirSync(directory)).toEqual([])
})

itHolds('stat follows symlinks and is null when there is nothing', async ({ sandbox, directory }) => {
  writeFileSync(path.join(directory, 'file'), 'four')
  chmodSync(path.join(directory, 'file'), 0o640)
  symlinkSync('file', path.join(directory, 'link'))
  symlinkSync('none', path.join(directory, 'dangling'))
  spawnSync('mkfifo', [path.join(directory, 'fifo')])
  const found = await sandbox.files.stat('file')
  expect(found).toEqual({
    path: 'file',
    name: 'file',
    type: 'file',
    size: 4,
    mode: 0o640,
    uid: process.getuid?.(),
    gid: process.getgid?.(),
    modifiedAt: expect.any(Date),
  })
  // Runtimes round differently.
  const { mtimeMs } = statSync(path.join(directory, 'file'))
  expect(Math.abs((found?.modifiedAt.getTime() ?? 0) - mtimeMs)).toBeLessThanOrEqual(1)
  expect(await sandbox.files.stat('link')).toMatchObject({ path: 'link', type: 'file', target: 'file' })
  expect(await sandbox.files.stat('fifo')).toMatchObject({ type: 'other' })
  expect(await sandbox.files.stat('/')).toMatchObject({ path: '/', name: '/', type: 'directory' })
  for (const name of ['none', 'dangling', 'file/x']) {
    expect(await sandbox.files.stat(name)).toBeNull()
    expect(await sandbox.files.exists(name)).toBe(false)
  }
  expect(await sandbox.files.exists('.')).toBe(true)
})

itHolds('stat can describe a symlink itself', async ({ sandbox, directory }) => {
  symlinkSync('none', path.join(directory, 'dangling'))
  symlinkSync('loop', path.join(directory, 'loop'))
  mkdirSync(path.join(directory, 'd'))
  symlinkSync('d', path.join(directory, 'to-d'))
  const lstat = (name: string) => sandbox.files.stat(name, { followSymlinks: false })
  for (const [name, target] of Object.entries({ dangling: 'none', loop: 'loop', 'to-d': 'd' }))
    expect(await lstat(name)).toMatchObject({ path: name, type: 'symlink', size: target.length, target })
  expect(await lstat('to-d/')).toMatchObject({ type: 'directory' })
  expect(await lstat('d')).toMatchObject({ type: 'directory' })
  expect(await lstat('none')).toBeNull()
  expect(await lstat('loop/x').catch((error) => error.code)).toBe('INVALID_PATH')
  expect(await rejectionOf(lstat(''))).toMatchObject({ code: 'INVALID_PATH' })
})

itHolds('mkdir makes parents, and rename replaces files only', async ({ sandbox, directory }) => {
  const { files } = sandbox
  await files.mkdir('a/b/c')
  expect(statSync(path.join(directory, 'a/b/c')).isDirectory()).toBe(true)
  await files.write('f', '1')
  await files.write('g', '2')
  await files.rename('f', 'g')
  expect(readFileSync(path.join(directory, 'g'), 'utf8')).toBe('1')
  await files.rename('a/b', 'moved')
  expect(readdirSync(path.join(directory, 'moved'))).toEqual(['c'])
  for (const [from, to, code, shown] of [
    ['none', 'x', 'FILE_NOT_FOUND', 'none'],
    ['g', 'none/x', 'FILE_NOT_FOUND', 'none/x'],
    ['g', 'a', 'IS_A_DIRECTORY', 'a'],
    ['a', 'g', 'NOT_A_DIRECTORY', 'g'],
    ['a', 'moved', 'FILE_EXISTS', 'moved'],
    ['moved', 'moved/c/d', 'INVALID_PATH', 'moved/c/d'],
    ['g/', 'h', 'NOT_A_DIRECTORY', 'g/'],
    ['.', 'h', 'INVALID_PATH', '.'],
    ['g', '', 'INVALID_PATH', ''],
  ] as const)
    expect(await rejectionOf(files.rename(from, to)), `${from} ${to}`).toMatchObject({ code, path: shown })
  expect(readdirSync(directory).sort()).toEqual(['a', 'g', 'moved'])
})

itHolds('a tree is copied with its symlinks, FIFOs and permissions', async ({ sandbox, directory }) => {
  const at = (name: string) => path.join(directory, name)
  mkdirSync(at('tree/inner'), { recursive: true })
  writeFileSync(at('tree/inner/run'), '#!/bin/sh\n')
  chmodSync(at('tree/inner/run'), 0o755)
  chmodSync(at('tree/inner'), 0o500)
  symlinkSync('/proc/nowhere', at('tree/link'))
  spawnSync('mkfifo', [at('tree/fifo')])
  await sandbox.files.copy('tree', 'copy', { recursive: true })
  expect(readdirSync(at('copy')).sort()).toEqual(['fifo', 'inner', 'link'])
  expect(readlinkSync(at('copy/link'))).toBe('/proc/nowhere')
  expect(lstatSync(at('copy/fifo')).isFIFO()).toBe(true)
  expect(statSync(at('copy/inner')).mode & 0o777).toBe(0o500)
  expect(statSync(at('copy/inner/run')).mode & 0o777).toBe(0o755)
  for (const name of ['tree', 'copy']) chmodSync(at(`${name}/inner`), 0o700)
})

itHolds('a copy that is refused leaves nothing', async ({ sandbox, directory }) => {
  const at = (name: string) => path.join(directory, name)
  mkdirSync(at('dir/inner'), { recursive: true })
  writeFileSync(at('file'), 'x')
  symlinkSync('file', at('link'))
  const server = spawnSync('python3', [
    '-c',
    `import socket; socket.socket(socket.AF_UNIX).bind('${at('dir/inner/sock')}')`,
  ])
  const hasSocket = server.status === 0
  for (const [from, to, recursive, code, shown] of [
    ['none', 'x', false, 'FILE_NOT_FOUND', 'none'],
    ['file', 'none/x', false, 'FILE_NOT_FOUND', 'none/x'],
    ['dir', 'x', false, 'IS_A_DIRECTORY', 'dir'],
    ['dir', 'dir/inner/x', true, 'INVALID_PATH', 'dir/inner/x'],
    ['dir', 'dir/x', true, 'INVALID_PATH', 'dir/x'],
    ['dir', 'dir', true, 'INVALID_PATH', 'dir'],
    ['dir', 'file', true, 'FILE_EXISTS', 'file'],
    ['file', 'file', false, 'INVALID_PATH', 'file'],
    ['file', 'link', false, 'INVALID_PATH', 'link'],
    ['file', 'dir', false, 'IS_A_DIRECTORY', 'dir'],
    ...(hasSocket ? ([['dir', 'x', true, 'INVALID_PATH', 'dir/inner/sock']] as const) : []),
  ] as const)
    expect(await rejectionOf(sandbox.files.copy(from, to, { recursive })), `${from} ${to}`).toMatchObject({
      code,
      path: shown,
    })
  expect(readdirSync(directory).sort()).toEqual(['dir', 'file', 'link'])
  await sandbox.files.copy('link', 'copied')
  expect(lstatSync(at('copied')).isFile()).toBe(true)
  await sandbox.files.copy('link', 'copied-link', { recursive: true })
  expect(readlinkSync(at('copied-link'))).toBe('file')
})

itHolds('remove deletes a link and not its target', async ({ sandbox, directory }) => {
  const at = (name: string) => path.join(directory, name)
  mkdirSync(at('dir/inner'), { recursive: true })
  writeFileSync(at('dir/file'), 'x')
  symlinkSync('dir', at('link'))
  mkdirSync(at('empty'))
  mkdirSync(at('outer'))
  symlinkSync(at('dir'), at('outer/inside'))
  await sandbox.files.remove('link', { recursive: true })
  await sandbox.files.remove('empty')
  await sandbox.files.remove('outer', { recursive: true })
  expect(readdirSync(directory)).toEqual(['dir'])
  expect(readdirSync(at('dir')).sort()).toEqual(['file', 'inner'])
  symlinkSync('dir', at('link'))
  for (const [name, recursive, code] of [
    ['none', true, 'FILE_NOT_FOUND'],
    ['dir', false, 'IS_A_DIRECTORY'],
    ['dir/file/', false, 'NOT_A_DIRECTORY'],
    ['link/', true, 'NOT_A_DIRECTORY'],
    ['/', true, 'INVALID_PATH'],
    ['.', true, 'INVALID_PATH'],
    ['dir/..', true, 'INVALID_PATH'],
    [directory, true, 'INVALID_PATH'],
    [path.dirname(directory), true, 'INVALID_PATH'],
  ] as const)
    expect(await rejectionOf(sandbox.files.remove(name, { recursive })), name).toMatchObject({
      code,
      path: name,
    })
  await sandbox.files.remove('dir', { recursive: true })
  expect(existsSync(at('dir'))).toBe(false)
})
