/** Files of the official SDK. */
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { FileNotFoundError, FilesystemEventType, FileType, type Sandbox } from 'e2b'
import { describe, expect, it } from 'vitest'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { request, withSandbox } from './place.js'

describe('files', () => {
  it('are written and read, in all formats', () =>
    withSandbox(async ({ files, commands }) => {
      expect(await files.write('a/b.txt', 'text')).toMatchObject({
        name: 'b.txt',
        path: '/home/user/a/b.txt',
      })
      expect(await files.read('/home/user/a/b.txt')).toBe('text')
      expect((await commands.run('cat ~/a/b.txt')).stdout).toBe('text')
      expect(await files.read('~/a/../a/b.txt', { format: 'bytes' })).toEqual(
        new TextEncoder().encode('text'),
      )
      expect(await (await files.read('a/b.txt', { format: 'blob' })).text()).toBe('text')
      expect(await new Response(await files.read('a/b.txt', { format: 'stream' })).text()).toBe('text')
      await files.write('empty', '')
      expect(await files.read('empty')).toBe('')
      await files.write('/tmp/x', 'x')
      expect((await commands.run('cat /tmp/x; rm /tmp/x')).stdout).toBe('x')
      expect(await files.exists('/tmp/x')).toBe(false)
      expect(await files.read('/proc/self/status')).toContain('Name:')
    }))

  it('may be large', () =>
    withSandbox(async ({ files }) => {
      const content = new Uint8Array(40_000_000).map((_, at) => at * 7)
      await files.write('large', new Blob([content]))
      expect(Buffer.compare(await files.read('large', { format: 'bytes' }), content)).toBe(0)
      const zipped = await files.read('large', { format: 'bytes', gzip: true })
      expect(Buffer.compare(zipped, content)).toBe(0)
      await files.write('zipped', new Blob([content.subarray(0, 100_000)]), {
        gzip: true,
        useOctetStream: true,
      })
      expect((await files.read('zipped', { format: 'bytes' })).length).toBe(100_000)
    }))

  it('are written many at once, with any name', () =>
    withSandbox(async ({ files }) => {
      const names = ['plain', 'with space', 'quote"\'', 'ünïcode', 'percent%20', 'semi;colon', 'deep/er/x']
      await files.write(names.map((name) => ({ path: `many/${name}`, data: name })))
      for (const name of names) expect(await files.read(`many/${name}`)).toBe(name)
      const listed = await files.list('many', { depth: 9 })
      expect(listed.filter(({ type }) => type === FileType.FILE).map((file) => file.path)).toEqual(
        names.map((name) => `/home/user/many/${name}`).sort(),
      )
      const twice = [
        { path: 'twice', data: '1' },
        { path: './twice', data: '2' },
      ]
      await expect(files.write(twice)).rejects.toThrow('two files for the same path')
    }))

  it('are described, also links', () =>
    withSandbox(async ({ files, commands }) => {
      await files.write('file', 'text')
      await commands.run(
        'chmod 640 file; ln -s file link; ln -s link second; ln -s /missing broken; mkdir sub',
      )
      expect(await files.getInfo('file')).toMatchObject({
        name: 'file',
        type: FileType.FILE,
        size: 4,
        mode: 0o640,
        permissions: '-rw-r-----',
        owner: 'user',
        group: 'user',
      })
      expect(await files.getInfo('sub')).toMatchObject({ type: FileType.DIR, permissions: 'drwxr-xr-x' })
      const target = { type: FileType.FILE, symlinkTarget: '/home/user/file' }
      expect(await files.getInfo('link')).toMatchObject(target)
      expect(await files.getInfo('second')).toMatchObject(target)
      expect(await files.getInfo('broken')).toMatchObject({ symlinkTarget: '/missing' })
      expect((await files.getInfo('file')).modifiedTime?.getFullYear()).toBeGreaterThan(2020)
      expect(await files.exists('broken/x')).toBe(false)
    }))

  it('are listed beside a link that leads to itself', () =>
    withSandbox(async ({ files, commands }) => {
      await files.write('sub/file', 'text')
      await commands.run('cd sub; ln -s loop loop')
      expect((await files.list('sub')).map(({ name }) => name)).toEqual(['file', 'loop'])
      expect(await files.getInfo('sub/loop')).toMatchObject({ symlinkTarget: '/home/user/sub/loop' })
    }))

  it('are moved and removed', () =>
    withSandbox(async ({ files }) => {
      expect(await files.makeDir('a/b')).toBe(true)
      expect(await files.makeDir('a/b')).toBe(false)
      await files.write('a/b/c', '1')
      expect(await files.rename('a/b/c', 'new/d')).toMatchObject({ path: '/home/user/new/d' })
      expect(await rejectionOf(files.rename('a/b/c', 'x'))).toBeInstanceOf(FileNotFoundError)
      await files.remove('new')
      await files.remove('new')
      expect(await files.exists('new/d')).toBe(false)
      for (const failing of [() => files.read('x'), () => files.list('x'), () => files.getInfo('x')])
        expect(await rejectionOf(failing())).toBeInstanceOf(FileNotFoundError)
      await expect(files.read('a')).rejects.toThrow('is a directory')
      await expect(files.write('a', 'x')).rejects.toThrow('is a directory')
    }))

  it('have metadata, which programs read and set as attributes', () =>
    withSandbox(async ({ files, commands }) => {
      const metadata = { author: 'a', empty: '', 'a.b_c': 'x = "y"' }
      for (const useOctetStream of [false, true]) {
        const written = await files.write('dir/file', 'text', { metadata, useOctetStream })
        expect(written.metadata).toEqual(metadata)
      }
      expect((await files.getInfo('dir/file')).metadata).toEqual(metadata)
      expect((await files.rename('dir/file', 'dir/moved')).metadata).toEqual(metadata)
      await commands.run('ln -s moved dir/link; mv dir/moved dir/again; touch dir/none; mkdir dir/sub')
      const listed = (await files.list('dir')).map((entry) => [entry.name, entry.metadata])
      expect(listed).toEqual([
        ['again', metadata],
        ['link', undefined],
        ['none', undefined],
        ['sub', undefined],
      ])
      const python = (text: string) => commands.run(`python3 -c 'import os; ${text}'`)
      expect((await python('print(os.getxattr("dir/again", "user.e2b.author"))')).stdout).toBe("b'a'\n")
      await python('os.setxattr("dir/again", "user.e2b.author", b"b")')
      await python('os.setxattr("dir/again", "user.other", b"not metadata")')
      await python('os.setxattr("dir/none", "user.e2b.bytes", bytes([255]))')
      expect((await files.getInfo('dir/again')).metadata).toEqual({ ...metadata, author: 'b' })
      expect((await files.getInfo('dir/none')).metadata).toBeUndefined()
      expect(await files.read('dir/again')).toBe('text')
    }))

  it('get the metadata of their last upload alone', () =>
    withSandbox(async ({ files }) => {
      await files.write('file', '1', { metadata: { a: '1', b: '2' } })
      expect((await files.write('file', '2', { metadata: { b: '3' } })).metadata).toEqual({ b: '3' })
      expect((await files.getInfo('file')).metadata).toEqual({ b: '3' })
      expect((await files.write('file', '3')).metadata).toBeUndefined()
      expect((await files.getInfo('file')).metadata).toBeUndefined()
      const two = [
        { path: 'one', data: '1' },
        { path: 'two', data: '2' },
      ]
      for (const { metadata } of await files.write(two, { metadata: { of: 'both' } }))
        expect(metadata).toEqual({ of: 'both' })
    }))

  it('are not written with metadata that does not fit', () =>
    withSandbox(async ({ files }) => {
      for (const [metadata, message] of [
        [{ ['k'.repeat(247)]: '' }, 'a key of metadata must have 1 to 246 bytes'],
        [{ key: 'v'.repeat(4085) }, 'the metadata has 4097 bytes with its names, more than 4096'],
      ] as const) {
        expect((await rejectionOf(files.write('file', 'x', { metadata }))).message).toContain(message)
        expect(await files.exists('file')).toBe(false)
      }
      const most = { ['k'.repeat(246)]: 'v'.repeat(2000) }
      expect((await files.write('file', 'x', { metadata: most })).metadata).toEqual(most)
    }))

  it('are watched when the call has resolved, and not a moment later', () =>
    withSandbox(async ({ files }) => {
      await files.makeDir('watched')
      const seen: string[] = []
      const watch = () => files.watchDir('watched', ({ type, name }) => void seen.push(`${type} ${name}`))
      // A session watches no more than this: the next one begins when one of them ends.
      const open = await Promise.all(Array.from({ length: 63 }, watch))
      let isOpen = false
      const last = watch().then((handle) => {
        isOpen = true
        return handle
      })
      for (let count = 0; count < 10; count++) await files.exists('watched')
      expect(isOpen).toBe(false)
      await open.pop()?.stop()
      open.push(await last)
      await files.makeDir('watched/sub')
      await until(
        () => seen.filter((event) => event === 'create sub').length === 63 || undefined,
        () => `only ${seen}`,
      )
      for (const handle of open) await handle.stop()
    }))

  it('are watched', () =>
    withSandbox(async ({ files }) => {
      await files.write('watched/before', '1')
      const seen: string[] = []
      const watch = await files.watchDir(
        'watched',
        ({ type, name, entry }) => {
          seen.push(`${type} ${name} ${entry?.size ?? ''}`.trim())
        },
        { recursive: true, includeEntry: true },
      )
      await files.write('watched/sub/new', 'text')
      await files.rename('watched/before', 'watched/after')
      await files.remove('watched/after')
      const expected = [
        `${FilesystemEventType.CREATE} sub/new 4`,
        `${FilesystemEventType.WRITE} sub/new 4`,
        `${FilesystemEventType.RENAME} before`,
        `${FilesystemEventType.REMOVE} after`,
      ]
      await until(
        () => expected.every((event) => seen.includes(event)) || undefined,
        () => seen.join('\n'),
      )
      await watch.stop()
      expect(await rejectionOf(files.watchDir('missing', () => {}))).toBeInstanceOf(FileNotFoundError)
    }))
})

it('a watch without changes shows that the server is alive', () =>
  withSandbox(async (sandbox, { server }) => {
    const token = (sandbox as unknown as { envdAccessToken: string }).envdAccessToken
    const message = Buffer.from('{"path":"."}')
    const head = Buffer.from([0, 0, 0, 0, message.length])
    const reply = await fetch(`${server.url}/filesystem.Filesystem/WatchDir`, {
      method: 'POST',
      headers: {
        'content-type': 'application/connect+json',
        'e2b-sandbox-id': sandbox.sandboxId,
        'x-access-token': token,
        'keepalive-ping-interval': '1',
      },
      body: Buffer.concat([head, message]),
    })
    let received = ''
    for await (const piece of reply.body ?? []) {
      received += Buffer.from(piece).toString('latin1')
      if (received.includes('{"keepalive":{}}')) break
    }
    expect(received).toContain('{"keepalive":{}}')
  }))

describe('signed addresses', () => {
  const read = async (sandbox: Sandbox, options?: { useSignatureExpiration?: number }) =>
    sandbox.downloadUrl('file', options)

  it('read and write without a token', () =>
    withSandbox(async (sandbox) => {
      const form = new FormData()
      form.append('file', new Blob(['signed']), 'ignored')
      const sent = await fetch(await sandbox.uploadUrl('file'), { method: 'POST', body: form })
      expect(await sent.json()).toEqual([{ name: 'file', path: '/home/user/file', type: 'file' }])
      for (const options of [undefined, { useSignatureExpiration: 60_000 }])
        expect(await (await fetch(await read(sandbox, options))).text()).toBe('signed')
    }))

  it('are good for one path, one operation and their time', () =>
    withSandbox(async (sandbox) => {
      await sandbox.files.write('file', 'x')
      await sandbox.files.write('other', 'x')
      const url = await read(sandbox)
      expect((await fetch(url.replace('path=file', 'path=other'))).status).toBe(502)
      expect((await fetch(url, { method: 'POST', body: 'x' })).status).toBe(502)
      const expired = new URL(await read(sandbox, { useSignatureExpiration: -10_000 }))
      expect((await fetch(expired)).status).toBe(401)
      expired.searchParams.set('signature_expiration', '99999999999')
      expect((await fetch(expired)).status).toBe(502)
    }))
})

it('a link out of the sandbox shows what programs see, and no other file of this machine', () =>
  withSandbox(async ({ files, commands }) => {
    const directory = temporary('nacre-compat-secret-')
    writeFileSync(path.join(directory, 'file'), 'SECRET')
    await commands.run(`ln -s '${directory}' out; ln -s '${directory}/file' secret`)
    // The sandbox has a /tmp of its own.
    expect(await files.exists('out/file')).toBe(false)
    expect(await rejectionOf(files.read('secret'))).toBeInstanceOf(FileNotFoundError)
    await files.write('out/new', 'x').catch(() => {})
    expect(readFileSync(path.join(directory, 'file'), 'utf8')).toBe('SECRET')
  }))

it('refuses what no client of E2B sends', () =>
  withSandbox(async (sandbox, { server }) => {
    const { sandboxId } = sandbox
    const token = (sandbox as unknown as { envdAccessToken: string }).envdAccessToken
    const headers = { 'e2b-sandbox-id': sandboxId, 'x-access-token': token }
    const send = (path: string, more: object, body = '') =>
      request(server.url + path, { method: 'POST', headers: { ...headers, ...more }, body })
    const json = { 'content-type': 'application/json' }
    expect((await send('/files?path=x', { 'content-type': 'text/plain' }, 'x')).status).toBe(400)
    expect((await send('/files', { 'content-type': 'multipart/form-data' }, 'x')).status).toBe(400)
    expect(
      (await send('/files', { 'content-type': 'multipart/form-data; boundary=a' }, '--a\r\n')).status,
    ).toBe(400)
    expect(
      (await send('/files?path=x', { 'content-type': 'application/octet-stream', 'content-encoding': 'br' }))
        .status,
    ).toBe(400)
    const part = '--a\r\ncontent-disposition: form-data; name="other"\r\n\r\n\r\n'
    const form = { 'content-type': 'multipart/form-data; boundary=a' }
    expect((await send('/files', form, `${part.repeat(10_000)}--a--\r\n`)).status).toBe(200)
    expect((await send('/files', form, `${part.repeat(10_001)}--a--\r\n`)).status).toBe(400)
    expect((await send('/filesystem.Filesystem/Stat', { 'content-type': 'text/plain' })).status).toBe(415)
    expect((await send('/filesystem.Filesystem/Stat', json, '[1]')).status).toBe(400)
    expect((await send('/filesystem.Filesystem/Stat', json, '{"path":1}')).status).toBe(400)
    expect((await send('/filesystem.Filesystem/Stat', json, '{"path":"a\\u0000b"}')).status).toBe(400)
    expect((await send('/filesystem.Filesystem/Nope', json, '{}')).status).toBe(404)
    expect((await send('/files?path=x', { 'x-metadata-a': 'ü' })).status).toBe(400)
    expect((await send('/files?path=x', { 'x-metadata-': 'a' })).status).toBe(400)
    expect(
      (await send('/filesystem.Filesystem/Stat', { ...json, 'x-access-token': 'no' }, '{}')).status,
    ).toBe(401)
  }))
