/** Watching files, in this process and over HTTP. */
import { mkdirSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { FileEvent } from 'nacre'
import { expect } from 'vitest'
import { type AnySandbox, itHolds } from '../contract/helper.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const bytes = (value: number) => Uint8Array.of(value)

/** Collects the events of a watch that has begun: a first file shows that. */
async function collect(
  sandbox: AnySandbox,
  directory: string,
  watched = '.',
  options: { recursive?: boolean } = {},
) {
  const watch = sandbox.files.watch(watched, options)
  const seen: FileEvent[] = []
  let isReady = false
  const ended = (async () => {
    // Runtimes differ in what they do to a new file that stays empty.
    for await (const event of watch) if (!isReady || !/(marker|first-\d+)$/.test(event.path)) seen.push(event)
  })()
  let tries = 0
  await holds(() => {
    if (seen.length === 0) writeFileSync(path.join(directory, watched, `first-${tries++}`), '')
    return seen.length > 0
  })
  // Those of the first files may still come.
  const marker = path.join(directory, watched, 'marker')
  writeFileSync(marker, '')
  await holds(() => seen.some(({ path: name }) => name.endsWith('marker')))
  seen.length = 0
  isReady = true
  return { watch, seen, ended }
}

itHolds('a watch reports changes below a directory', async ({ sandbox, directory }) => {
  const { watch, seen, ended } = await collect(sandbox, directory)
  await sandbox.files.write('a', '1')
  await sandbox.files.write('a', '2')
  await sandbox.files.rename('a', 'b')
  await sandbox.exec('echo more >> b; chmod 600 b')
  await sandbox.files.remove('b')
  await holds(() => seen.some(({ type }) => type === 'deleted'))
  expect(seen[0]).toEqual({ type: 'created', path: 'a' })
  expect(seen[1]).toEqual({ type: 'modified', path: 'a' })
  expect(seen[2]).toEqual({ type: 'renamed', path: 'b', oldPath: 'a' })
  expect(seen.slice(3, -1).every((event) => event.type === 'modified' && event.path === 'b')).toBe(true)
  expect(seen.at(-1)).toEqual({ type: 'deleted', path: 'b' })
  expect(seen.some((event) => event.path.includes('.nacre-'))).toBe(false)
  await watch.return?.()
  await ended
})

itHolds('new directories are watched, with their existing content', async ({ sandbox, directory }) => {
  const { watch, seen, ended } = await collect(sandbox, directory)
  await sandbox.exec('mkdir -p x/y/z; touch x/y/z/one')
  const created = (name: string) =>
    seen.filter((event) => event.type === 'created' && event.path === name).length
  await holds(() => created('x/y/z/one') > 0)
  expect(['x', 'x/y', 'x/y/z', 'x/y/z/one'].map(created)).toEqual([1, 1, 1, 1])
  renameSync(path.join(directory, 'x'), path.join(directory, 'w'))
  writeFileSync(path.join(directory, 'w/y/z/two'), '')
  await holds(() => created('w/y/z/two') > 0)
  expect(seen).toContainEqual({ type: 'renamed', path: 'w', oldPath: 'x' })
  const outside = `${directory}-outside`
  renameSync(path.join(directory, 'w'), outside)
  writeFileSync(path.join(outside, 'y/unseen'), '')
  writeFileSync(path.join(directory, 'last'), '')
  await holds(() => created('last') > 0 && seen.some(({ type }) => type === 'deleted'))
  expect(seen).toContainEqual({ type: 'deleted', path: 'w' })
  rmSync(outside, { recursive: true })
  await watch.return?.()
  await ended
})

itHolds('without recursive, only the directory itself is watched', async ({ sandbox, directory }) => {
  mkdirSync(path.join(directory, 'd/inner'), { recursive: true })
  const { watch, seen, ended } = await collect(sandbox, directory, 'd', { recursive: false })
  writeFileSync(path.join(directory, 'd/inner/unseen'), '')
  writeFileSync(path.join(directory, 'd/seen'), '')
  await holds(() => seen.length > 0)
  expect(seen[0]).toEqual({ type: 'created', path: 'd/seen' })
  await watch.return?.()
  await ended
})

itHolds(
  'a watch continues when its file is replaced, and ends when it is removed',
  async ({ sandbox, directory }) => {
    const file = path.join(directory, 'f')
    writeFileSync(file, '1')
    const watch = sandbox.files.watch('f')
    const next = watch.next()
    const timer = setInterval(() => writeFileSync(file, '2'), 20)
    expect(await next).toEqual({ done: false, value: { type: 'modified', path: 'f' } })
    clearInterval(timer)
    renameSync(file, `${file}~`)
    writeFileSync(file, '3')
    const rest = async (type: string) => {
      for (;;) {
        const event = await watch.next()
        expect(event.value).toMatchObject({ path: 'f' })
        if (event.value?.type === type) return
      }
    }
    await rest('deleted')
    await rest('created')
    rmSync(file)
    await rest('deleted')
    expect(await watch.next()).toEqual({ done: true, value: undefined })
  },
)

itHolds('a path that is not UTF-8 is also given as bytes', async ({ sandbox, directory }) => {
  const { watch, seen, ended } = await collect(sandbox, directory)
  await sandbox.exec("touch $'\\xff'; mv $'\\xff' $'\\xfe'; mv $'\\xfe' plain")
  await holds(() => seen.some(({ path: name }) => name === 'plain'))
  const plain = ({ pathBytes, oldPathBytes, ...event }: FileEvent) => ({
    ...event,
    ...(pathBytes && { pathBytes: new Uint8Array(pathBytes) }),
    ...(oldPathBytes && { oldPathBytes: new Uint8Array(oldPathBytes) }),
  })
  const renamed = seen.filter(({ type }) => type === 'renamed').map(plain)
  expect(seen.slice(0, 1).map(plain)).toEqual([{ type: 'created', path: '\ufffd', pathBytes: bytes(0xff) }])
  expect(renamed).toEqual([
    {
      type: 'renamed',
      path: '\ufffd',
      pathBytes: bytes(0xfe),
      oldPath: '\ufffd',
      oldPathBytes: bytes(0xff),
    },
    { type: 'renamed', path: 'plain', oldPath: '\ufffd', oldPathBytes: bytes(0xfe) },
  ])
  await watch.return?.()
  await ended
})

itHolds('a watch ends with its directory, its signal and its loop', async ({ sandbox, directory }) => {
  mkdirSync(path.join(directory, 'd'))
  const { seen, ended } = await collect(sandbox, directory, 'd')
  await sandbox.files.remove('d', { recursive: true })
  await ended
  expect(seen.at(-1)).toEqual({ type: 'deleted', path: 'd' })
  const abort = new AbortController()
  const watch = sandbox.files.watch('.', { signal: abort.signal })
  const pending = rejectionOf(watch.next())
  abort.abort()
  expect(await pending).toMatchObject({ name: 'AbortError', code: 'ABORT_ERR' })
  expect(await rejectionOf(sandbox.files.watch('none').next())).toMatchObject({
    code: 'FILE_NOT_FOUND',
    path: 'none',
  })
  const timer = setInterval(() => writeFileSync(path.join(directory, `x${Math.random()}`), ''), 50)
  for await (const event of sandbox.files.watch()) {
    expect(event.type).toBe('created')
    break
  }
  clearInterval(timer)
})
