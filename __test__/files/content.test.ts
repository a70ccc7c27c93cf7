/** Reading and writing files, in this process and over HTTP. */
import { spawnSync } from 'node:child_process'
import { getEventListeners } from 'node:events'
import {
  chmodSync,
  existsSync,
  linkSync,
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
import { holds, until } from '../helpers/until.js'

/** A path with this byte is not UTF-8. */
const odd = (directory: string, name: string) => Buffer.from(`${directory}/${name}\xff`, 'latin1')

itHolds('a file is written with its parents and read back', async ({ sandbox, directory }) => {
  const written = await sandbox.files.write('a/b/c.txt', 'héllo\n')
  expect(written).toMatchObject({ path: 'a/b/c.txt', name: 'c.txt', type: 'file', size: 7 })
  expect(written.modifiedAt).toBeInstanceOf(Date)
  expect(readFileSync(path.join(directory, 'a/b/c.txt'), 'utf8')).toBe('héllo\n')
  expect(await sandbox.files.read('a/b/c.txt')).toBe('héllo\n')
  expect(Buffer.from(await sandbox.files.read('a/b/c.txt', { encoding: 'buffer' }))).toEqual(
    Buffer.from('héllo\n'),
  )
  expect(await sandbox.files.read(path.join(directory, 'a/b/c.txt'))).toBe('héllo\n')
})

itHolds(
  'relative paths start where the next command starts, also while one runs',
  async ({ sandbox, directory }) => {
    mkdirSync(path.join(directory, 'sub/deep'), { recursive: true })
    await sandbox.exec('cd sub')
    await sandbox.files.write('one', '1')
    expect(readdirSync(path.join(directory, 'sub'))).toContain('one')
    const running = sandbox.exec('cd deep; touch begun; while ! test -e ../go; do sleep 0.01; done')
    await holds(() => existsSync(path.join(directory, 'sub/deep/begun')))
    await sandbox.files.write('go', '')
    await running
    await sandbox.files.write('two', '2')
    expect(readdirSync(path.join(directory, 'sub/deep'))).toContain('two')
    const session = await sandbox.createSession({ id: 'other' })
    expect(await session.files.exists('sub/one')).toBe(true)
    expect(await session.files.exists('one')).toBe(false)
    await sandbox.deleteSession('other')
  },
)

itHolds('invalid UTF-8 becomes U+FFFD, and a byte order mark stays', async ({ sandbox, directory }) => {
  writeFileSync(path.join(directory, 'x'), Buffer.from([0xef, 0xbb, 0xbf, 0x61, 0xff, 0xc3]))
  expect(await sandbox.files.read('x')).toBe('\ufeffa\ufffd\ufffd')
})

itHolds('names may have any byte', async ({ sandbox, directory }) => {
  const strange = 'a\nb"\\ \t*?é\u{1f600}'
  await sandbox.files.write(strange, '1')
  expect(await sandbox.files.read(strange)).toBe('1')
  const bytes = odd(directory, 'odd')
  await sandbox.files.write(bytes, '2')
  expect(await sandbox.files.read(bytes)).toBe('2')
  const list = await sandbox.files.list()
  const found = list.find(({ pathBytes }) => pathBytes !== undefined)
  expect(found).toMatchObject({ path: 'odd\ufffd', name: 'odd\ufffd' })
  expect(Buffer.from(found?.pathBytes ?? [])).toEqual(Buffer.from('odd\xff', 'latin1'))
  expect(await sandbox.files.read(found?.pathBytes ?? '')).toBe('2')
  await sandbox.files.remove(bytes)
  expect(readdirSync(directory)).toEqual([strange])
})

itHolds('errors have a code and the path', async ({ sandbox, directory }) => {
  const { files } = sandbox
  mkdirSync(path.join(directory, 'dir'))
  writeFileSync(path.join(directory, 'file'), 'x')
  symlinkSync('nowhere', path.join(directory, 'dangling'))
  symlinkSync('loop', path.join(directory, 'loop'))
  spawnSync('mkfifo', [path.join(directory, 'fifo')])
  const long = 'n'.repeat(300)
  const cases: Array<[() => Promise<unknown>, string, string]> = [
    [() => files.read('none'), 'FILE_NOT_FOUND', 'none'],
    [() => files.read('dangling'), 'FILE_NOT_FOUND', 'dangling'],
    [() => files.read('dir'), 'IS_A_DIRECTORY', 'dir'],
    [() => files.read('file/x'), 'NOT_A_DIRECTORY', 'file/x'],
    [() => files.read('file/'), 'NOT_A_DIRECTORY', 'file/'],
    [() => files.read('loop'), 'INVALID_PATH', 'loop'],
    [() => files.read('fifo'), 'INVALID_PATH', 'fifo'],
    [() => files.read('/dev/zero'), 'INVALID_PATH', '/dev/zero'],
    [() => files.read(''), 'INVALID_PATH', ''],
    [() => files.read('a\0b'), 'INVALID_PATH', 'a\0b'],
    [() => files.read('a\ud800'), 'INVALID_PATH', 'a\ud800'],
    [() => files.read(long), 'INVALID_PATH', long],
    [() => files.read(`${'d/'.repeat(2100)}x`), 'INVALID_PATH', `${'d/'.repeat(2100)}x`],
    [() => files.write('dir', 'x'), 'IS_A_DIRECTORY', 'dir'],
    [() => files.write('dir/', 'x'), 'IS_A_DIRECTORY', 'dir/'],
    [() => files.write('new/', 'x'), 'IS_A_DIRECTORY', 'new/'],
    [() => files.write('.', 'x'), 'IS_A_DIRECTORY', '.'],
    [() => files.write('file/x', 'x'), 'NOT_A_DIRECTORY', 'file/x'],
    [() => files.write('fifo', 'x'), 'INVALID_PATH', 'fifo'],
    [() => files.write('fifo', 'x', { append: true }), 'INVALID_PATH', 'fifo'],
    [() => files.write('/dev/null', 'x'), 'INVALID_PATH', '/dev/null'],
    [() => files.write('loop', 'x'), 'INVALID_PATH', 'loop'],
    [() => files.write('', 'x'), 'INVALID_PATH', ''],
    [() => files.list('file'), 'NOT_A_DIRECTORY', 'file'],
    [() => files.list('none'), 'FILE_NOT_FOUND', 'none'],
    [() => files.stat(''), 'INVALID_PATH', ''],
    [() => files.mkdir('dir'), 'FILE_EXISTS', 'dir'],
    [() => files.mkdir('file/x'), 'NOT_A_DIRECTORY', 'file/x'],
  ]
  for (const [call, code, shown] of cases)
    expect(await rejectionOf(call()), `${code} ${shown.slice(0, 20)}`).toMatchObject({
      name: 'SandboxError',
      code,
      path: shown,
    })
})

itHolds('options that exclude each other are refused', async ({ sandbox }) => {
  for (const call of [
    () => sandbox.files.list('.', { maxDepth: 2 }),
    async () => sandbox.files.readStream('a', { start: 2, end: 1 }),
  ])
    expect(await rejectionOf(call())).toMatchObject({ name: 'OptionError', code: 'INVALID_OPTION' })
})

itHolds('maxBytes bounds a read', async ({ sandbox }) => {
  await sandbox.files.write('x', '12345')
  expect(await sandbox.files.read('x', { maxBytes: 5 })).toBe('12345')
  expect(await rejectionOf(sandbox.files.read('x', { maxBytes: 4 }))).toMatchObject({
    code: 'FILE_TOO_LARGE',
    path: 'x',
  })
  await sandbox.exec('truncate -s 1T sparse')
  expect(await rejectionOf(sandbox.files.read('sparse'))).toMatchObject({ code: 'FILE_TOO_LARGE' })
  expect((await sandbox.files.stat('sparse'))?.size).toBe(2 ** 40)
})

itHolds('files without a length are read to their end', async ({ sandbox }) => {
  expect(await sandbox.files.read('/proc/sys/kernel/ostype')).toBe('Linux\n')
  expect(await rejectionOf(sandbox.files.read('/proc/kallsyms', { maxBytes: 10 }))).toMatchObject({
    code: 'FILE_TOO_LARGE',
  })
})

itHolds(
  'a replaced file keeps its permissions, and a reader sees the old or the new',
  async ({ sandbox, directory }) => {
    const file = path.join(directory, 'x')
    writeFileSync(file, 'old')
    chmodSync(file, 0o751)
    linkSync(file, `${file}.linked`)
    expect(await sandbox.files.write('x', 'new')).toMatchObject({ mode: 0o751 })
    expect(statSync(file).mode & 0o7777).toBe(0o751)
    expect(readFileSync(file, 'utf8')).toBe('new')
    expect(readFileSync(`${file}.linked`, 'utf8')).toBe('old')
    expect(await sandbox.files.write('x', 'newer', { mode: 0o600 })).toMatchObject({ mode: 0o600 })
    const { stdout } = await sandbox.exec('umask')
    const mode = 0o666 & ~Number.parseInt(stdout, 8)
    expect(await sandbox.files.write('y', '')).toMatchObject({ mode, size: 0 })
    expect(await sandbox.files.write('z', '', { mode: 0o4755 })).toMatchObject({ mode: 0o4755 })
  },
)

itHolds('a reader never sees half a file', async ({ sandbox, directory }) => {
  const file = path.join(directory, 'x')
  const contents = ['a', 'b'].map((letter) => letter.repeat(3 * 1024 * 1024))
  writeFileSync(file, contents[0] ?? '')
  let isOver = false
  const writing = (async () => {
    for (let round = 0; round < 4; round++) await sandbox.files.write('x', contents[round % 2] ?? '')
    isOver = true
  })()
  while (!isOver) {
    const seen = readFileSync(file)
    expect(seen.length).toBe(3 * 1024 * 1024)
    expect(seen[0]).toBe(seen.at(-1))
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await writing
  expect(readdirSync(directory)).toEqual(['x'])
})

itHolds('a write follows a symlink, which stays', async ({ sandbox, directory }) => {
  const at = (name: string) => path.join(directory, name)
  mkdirSync(at('d'))
  writeFileSync(at('d/target'), 'old')
  symlinkSync('d/target', at('link'))
  symlinkSync(at('link'), at('second'))
  symlinkSync('d/fresh', at('dangling'))
  await sandbox.files.write('second', 'new')
  await sandbox.files.write('dangling', 'made')
  expect(readFileSync(at('d/target'), 'utf8')).toBe('new')
  expect(readFileSync(at('d/fresh'), 'utf8')).toBe('made')
  expect(readlinkSync(at('link'))).toBe('d/target')
  expect(lstatSync(at('second')).isSymbolicLink()).toBe(true)
  expect(readdirSync(at('d')).sort()).toEqual(['fresh', 'target'])
})

itHolds('append adds to the end of the file', async ({ sandbox, directory }) => {
  await sandbox.files.write('log/x', 'one\n', { append: true })
  expect(await sandbox.files.write('log/x', 'two\n', { append: true })).toMatchObject({ size: 8 })
  expect(readFileSync(path.join(directory, 'log/x'), 'utf8')).toBe('one\ntwo\n')
  async function* source() {
    yield 'three\n'
    throw new Error('no more')
  }
  expect((await rejectionOf(sandbox.files.write('log/x', source(), { append: true }))).message).toBe(
    'no more',
  )
  await holds(() => readFileSync(path.join(directory, 'log/x'), 'utf8') === 'one\ntwo\n')
  await rejectionOf(sandbox.files.write('log/y', source(), { append: true }))
  await holds(() => readdirSync(path.join(directory, 'log')).length === 1)
})

itHolds('data may be text, bytes, an iterable or a stream', async ({ sandbox }) => {
  async function* parts() {
    yield 'é'
    yield new Uint8Array(0)
    yield Buffer.from('bytes')
  }
  const stream = new ReadableStream<Uint8Array>({
    start(controller) {
      for (let part = 0; part < 300; part++) controller.enqueue(Buffer.alloc(10_000, part))
      controller.close()
    },
  })
  await sandbox.files.write('a', parts())
  expect(await sandbox.files.read('a')).toBe('ébytes')
  expect(await sandbox.files.write('b', stream)).toMatchObject({ size: 3_000_000 })
  const read = await sandbox.files.read('b', { encoding: 'buffer' })
  expect([read.length, read[29_999], read[2_999_999]]).toEqual([3_000_000, 2, 299 % 256])
  await sandbox.files.write('c', sandbox.files.readStream('b'))
  expect(Buffer.from(await sandbox.files.read('c', { encoding: 'buffer' })).equals(Buffer.from(read))).toBe(
    true,
  )
})

itHolds(
  'a write that fails or is aborted leaves the old file and nothing else',
  async ({ sandbox, directory }) => {
    writeFileSync(path.join(directory, 'x'), 'old')
    const unchanged = () =>
      readFileSync(path.join(directory, 'x'), 'utf8') === 'old' && readdirSync(directory).length === 1
    async function* failing() {
      yield Buffer.alloc(2_000_000)
      throw new RangeError('the source failed')
    }
    expect(await rejectionOf(sandbox.files.write('x', failing()))).toMatchObject({
      name: 'RangeError',
      message: 'the source failed',
    })
    await holds(unchanged)
    const abort = new AbortController()
    async function* stuck() {
      yield Buffer.alloc(2_000_000)
      await new Promise(() => {})
    }
    const writing = rejectionOf(sandbox.files.write('x', stuck(), { signal: abort.signal }))
    await holds(() => readdirSync(directory).length === 2)
    abort.abort(new Error('enough'))
    expect(await writing).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' })
    await holds(unchanged)
    async function* bad() {
      yield 7 as unknown as string
    }
    expect(await rejectionOf(sandbox.files.write('x', bad()))).toMatchObject({ code: 'INVALID_OPTION' })
    await holds(unchanged)
    const aborted = sandbox.files.write('x', 'new', { signal: AbortSignal.abort() })
    expect(await rejectionOf(aborted)).toMatchObject({ code: 'ABORT_ERR' })
    expect(unchanged()).toBe(true)
  },
)

itHolds('a stream gives a range of bytes', async ({ sandbox }) => {
  await sandbox.files.write('x', '0123456789')
  const text = async (options: object) => {
    let all = ''
    for await (const piece of sandbox.files.readStream('x', options)) all += Buffer.from(piece).toString()
    return all
  }
  expect(await text({})).toBe('0123456789')
  expect(await text({ start: 3 })).toBe('3456789')
  expect(await text({ start: 3, end: 5 })).toBe('345')
  expect(await text({ end: 0 })).toBe('0')
  expect(await text({ start: 9, end: 99 })).toBe('9')
  expect(await text({ start: 10 })).toBe('')
  await sandbox.files.write('empty', '')
  let pieces = 0
  for await (const _ of sandbox.files.readStream('empty')) pieces++
  expect(pieces).toBe(0)
  const reader = sandbox.files.readStream('none').getReader()
  expect(await rejectionOf(reader.read())).toMatchObject({ code: 'FILE_NOT_FOUND', path: 'none' })
  const abort = new AbortController()
  // A stream that is never read leaves no listener.
  for (let count = 0; count < 3; count++) sandbox.files.readStream('x', { signal: abort.signal })
  expect(getEventListeners(abort.signal, 'abort')).toEqual([])
  const cut = sandbox.files.readStream('x', { signal: abort.signal }).getReader()
  abort.abort()
  expect(await rejectionOf(cut.read())).toMatchObject({ code: 'ABORT_ERR' })
})

itHolds(
  'a full file system is NO_SPACE, and a read-only one PERMISSION_DENIED',
  async ({ sandbox, directory }) => {
    if (process.getuid?.() !== 0) return
    for (const name of ['small', 'fixed']) mkdirSync(path.join(directory, name))
    const mount = (name: string, options: string) =>
      spawnSync('mount', ['-t', 'tmpfs', '-o', options, 'none', path.join(directory, name)])
    if (mount('small', 'size=1m').status !== 0) return
    mount('fixed', 'ro')
    try {
      await sandbox.files.write('small/x', 'old')
      for (const append of [false, true]) {
        const failed = await rejectionOf(sandbox.files.write('small/x', Buffer.alloc(2_000_000), { append }))
        expect(failed).toMatchObject({ code: 'NO_SPACE', path: 'small/x' })
        expect(await sandbox.files.read('small/x')).toBe('old')
        expect(readdirSync(path.join(directory, 'small'))).toEqual(['x'])
      }
      expect(await rejectionOf(sandbox.files.write('fixed/x', 'x'))).toMatchObject({
        code: 'PERMISSION_DENIED',
        path: 'fixed/x',
      })
    } finally {
      // The helper may still be closing a file.
      for (const name of ['small', 'fixed'])
        await until(
          () => spawnSync('umount', [path.join(directory, name)]).status === 0 || undefined,
          () => `${name} stays busy`,
        )
    }
  },
)
