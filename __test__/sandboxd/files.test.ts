/** The routes on files of sandboxd. */
import {
  chmodSync,
  existsSync,
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../helpers/until.js'
import { type Answer, type Place, withSandboxd } from './place.js'

const FILES = '/v1/files'

/** The status of an answer and the code of its body. */
function refusal({ status, json, headers }: Answer): [number, string] {
  const body = json() as { code: string; message: string }
  expect(Object.keys(body).sort()).toEqual(['code', 'message'])
  expect(body.message).toMatch(/./)
  expect(headers['content-type']).toBe('application/json')
  return [status, body.code]
}

const put = (place: Place, target: string, body: Uint8Array | string = 'x', headers = {}) =>
  place.rest('PUT', `${FILES}/${target}`, body, headers)

const get = (place: Place, target: string) => place.rest('GET', `${FILES}/${target}`)

/** A form with one part. */
function form(
  name: string,
  content: Uint8Array | string,
  extra = '',
): { body: Buffer; headers: Record<string, string> } {
  const body = Buffer.concat([
    Buffer.from(
      `--limit\r\nContent-Disposition: form-data; name="note"\r\n\r\nignored\r\n` +
        `--limit\r\nContent-Disposition: form-data; name="${name}"${extra}\r\n\r\n`,
    ),
    Buffer.from(content as string),
    Buffer.from('\r\n--limit--\r\n'),
  ])
  return { body, headers: { 'content-type': 'multipart/form-data; boundary=limit' } }
}

describe('GET', () => {
  it('gives the bytes of a file', () =>
    withSandboxd(async (place) => {
      const bytes = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index & 0xff))
      writeFileSync(path.join(place.root, 'b'), bytes)
      const { status, headers, body } = await get(place, 'b')
      expect([status, body.equals(bytes)]).toEqual([200, true])
      expect(headers).toMatchObject({
        'content-type': 'application/octet-stream',
        'content-length': '300000',
        'x-content-type-options': 'nosniff',
      })
      writeFileSync(path.join(place.root, 'empty'), '')
      const empty = await get(place, 'empty')
      expect([empty.status, empty.body.length]).toEqual([200, 0])
    }))

  it('gives a range of bytes', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'f'), '0123456789')
      const range = async (value: string) => {
        const { status, body, headers } = await place.rest('GET', `${FILES}/f`, undefined, { range: value })
        return [status, body.toString(), headers['content-range']]
      }
      expect(await range('bytes=2-4')).toEqual([206, '234', 'bytes 2-4/10'])
      expect(await range('bytes=-3')).toEqual([206, '789', 'bytes 7-9/10'])
      expect(await range('bytes=10-')).toEqual([416, '', 'bytes */10'])
    }))

  it('lists a directory, sorted, with what links point at', () =>
    withSandboxd(async (place) => {
      const at = (name: string) => path.join(place.root, name)
      writeFileSync(at('b.txt'), 'bb')
      chmodSync(at('b.txt'), 0o600)
      utimesSync(at('b.txt'), 1_700_000_000, 1_700_000_000)
      mkdirSync(at('adir'))
      symlinkSync('b.txt', at('link'))
      symlinkSync('adir', at('dirlink'))
      symlinkSync('nowhere', at('broken'))
      symlinkSync('/etc/passwd', at('escape'))
      const { status, json, headers } = await get(place, '')
      expect([status, headers['content-type']]).toEqual([200, 'application/json'])
      const listing = json() as { path: string; entries: Array<Record<string, unknown>> }
      expect(listing.path).toBe('/')
      expect(listing.entries.map(({ name, type }) => [name, type])).toEqual([
        ['adir', 'directory'],
        ['b.txt', 'file'],
        ['dirlink', 'directory'],
        ['link', 'file'],
      ])
      const file = {
        name: 'b.txt',
        size: 2,
        type: 'file',
        modified_at: '2023-11-14T22:13:20.000Z',
        mode: '0600',
      }
      expect(listing.entries[1]).toEqual(file)
      expect(listing.entries[3]).toEqual({ ...file, name: 'link' })
      const sub = (await get(place, 'adir/')).json()
      expect(sub).toEqual({ path: '/adir', entries: [] })
      for (const root of [FILES, `${FILES}/`, `${FILES}/.`, `${FILES}/%2F`, `${FILES}//`])
        expect((await place.rest('GET', root)).json()).toMatchObject({ path: '/' })
    }))

  it('lists dates that RFC 3339 cannot write as dates that it can', () =>
    withSandboxd(async (place) => {
      await place.execute({ command: ['sh', '-c', 'touch -d @-99999999 old; touch -d 2400-01-01 far; ls'] })
      const { entries } = (await get(place, '')).json() as { entries: Array<{ modified_at: string }> }
      for (const { modified_at } of entries) expect(modified_at).toMatch(/^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
    }))

  it('refuses what is not there, and what is no file', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'f'), '')
      await place.execute({ command: ['mkfifo', 'fifo'] })
      expect(refusal(await get(place, 'none'))).toEqual([404, 'NOT_FOUND'])
      expect(refusal(await get(place, 'none/at/all'))).toEqual([404, 'NOT_FOUND'])
      expect(refusal(await get(place, 'f/x'))).toEqual([404, 'NOT_FOUND'])
      expect(refusal(await get(place, 'fifo'))).toEqual([400, 'INVALID_ARGUMENT'])
    }))
})

describe('HEAD', () => {
  it('answers as GET does, without a body', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'f'), '12345')
      const head = (target: string) => place.rest('HEAD', `${FILES}/${target}`)
      const { status, headers, body } = await head('f')
      expect([status, headers['content-length'], body.length]).toEqual([200, '5', 0])
      expect((await head('')).status).toBe(200)
      expect((await head('none')).status).toBe(404)
      expect((await head('%2E%2E/x')).status).toBe(403)
    }))
})

describe('clients that disconnect', () => {
  it('end their own requests, and nothing else', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'large'), Buffer.alloc(30_000_000))
      const { restPort: port } = place.sandboxd
      const leave = (method: string, target: string, body?: string) =>
        new Promise<void>((resolve) => {
          const headers = body === undefined ? {} : { 'content-length': 1_000_000 }
          const options = {
            host: '127.0.0.1',
            port,
            method,
            path: `${FILES}/${target}`,
            headers,
            agent: false,
          }
          const request = http.request(options, (response) => {
            response.on('error', () => {})
            response.once('data', () => request.destroy())
          })
          request.on('error', () => {})
          request.on('close', resolve)
          if (body === undefined) request.end()
          else request.write(body, () => request.destroy())
        })
      for (let round = 0; round < 10; round++)
        await Promise.all([leave('GET', 'large'), leave('PUT', 'new', 'x'), leave('GET', '')])
      expect((await place.rest('GET', '/v1/health')).status).toBe(200)
      await until(
        () => (readdirSync(place.root).length === 1 ? true : undefined),
        () => `left: ${readdirSync(place.root)}`,
      )
    }))
})

describe('PUT', () => {
  it('writes a file with its parents and its mode, and replaces it', () =>
    withSandboxd(async (place) => {
      const { status, body } = await put(place, 'a/b/c.txt', 'first')
      expect([status, body.length]).toEqual([204, 0])
      const file = path.join(place.root, 'a/b/c.txt')
      expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['first', 0o644])
      expect((await put(place, 'a/b/c.txt?mode=0755', 'second')).status).toBe(204)
      expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['second', 0o755])
      expect((await put(place, 'a/b/c.txt?mode=0400', '')).status).toBe(204)
      expect([readFileSync(file, 'utf8'), statSync(file).mode & 0o777]).toEqual(['', 0o400])
      expect(readdirSync(path.join(place.root, 'a/b'))).toEqual(['c.txt'])
      expect((await put(place, 'dir%2Fsub%2Ffile.txt', 'x')).status).toBe(204)
      expect(readFileSync(path.join(place.root, 'dir/sub/file.txt'), 'utf8')).toBe('x')
    }))

  it('writes large bodies exactly, with a length and without', () =>
    withSandboxd(async (place) => {
      const bytes = Buffer.alloc(8_000_000, 'sandboxd ')
      expect((await put(place, 'l', bytes, { 'content-length': bytes.length })).status).toBe(204)
      expect(readFileSync(path.join(place.root, 'l')).equals(bytes)).toBe(true)
      expect((await put(place, 'c', bytes, { 'transfer-encoding': 'chunked' })).status).toBe(204)
      expect(readFileSync(path.join(place.root, 'c')).equals(bytes)).toBe(true)
    }))

  it('takes the part file of a form, with a file name and without', () =>
    withSandboxd(async (place) => {
      const bytes = Buffer.alloc(3_000_000, '\r\n--limi')
      for (const extra of ['; filename="../../other"', '']) {
        const { body, headers } = form('file', bytes, extra)
        expect((await put(place, 'up', body, headers)).status).toBe(204)
        expect(readFileSync(path.join(place.root, 'up')).equals(bytes)).toBe(true)
      }
      expect(readdirSync(place.root)).toEqual(['up'])
    }))

  it('refuses a form that has no part file, or is malformed, and writes nothing', () =>
    withSandboxd(async (place) => {
      const other = form('other', 'x')
      expect(refusal(await put(place, 'f', other.body, other.headers))).toEqual([400, 'INVALID_ARGUMENT'])
      const { body, headers } = form('file', 'content'.repeat(10))
      for (let end = 1; end < body.length - 4; end++)
        expect(refusal(await put(place, 'f', body.subarray(0, end), headers)), `${end}`).toEqual([
          400,
          'INVALID_ARGUMENT',
        ])
      expect(refusal(await put(place, 'f', body, { 'content-type': 'multipart/form-data' }))).toEqual([
        400,
        'INVALID_ARGUMENT',
      ])
      expect(refusal(await put(place, 'f', '', headers))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(readdirSync(place.root)).toEqual([])
    }))

  it('keeps the old content when an upload breaks off', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'f'), 'old')
      for (const headers of [
        { 'content-length': 1_000_000 },
        { 'transfer-encoding': 'chunked' },
        { ...form('file', '').headers, 'content-length': 1_000_000 },
      ]) {
        const options = {
          host: '127.0.0.1',
          port: place.sandboxd.restPort,
          method: 'PUT',
          path: `${FILES}/f`,
          headers,
        }
        const request = http.request({ ...options, agent: false })
        request.on('error', () => {})
        request.write(
          'content-type' in headers
            ? form('file', 'new'.repeat(50_000)).body.subarray(0, -40)
            : 'new'.repeat(50_000),
        )
        await until(
          () => (readdirSync(place.root).length === 2 ? true : undefined),
          () => 'no upload has begun',
        )
        expect(readFileSync(path.join(place.root, 'f'), 'utf8')).toBe('old')
        request.destroy()
        await until(
          () => (readdirSync(place.root).length === 1 ? true : undefined),
          () => `left: ${readdirSync(place.root)}`,
        )
        expect(readFileSync(path.join(place.root, 'f'), 'utf8')).toBe('old')
      }
    }))

  it('shows readers the old content or the new, and nothing between', () =>
    withSandboxd(async (place) => {
      const contents = ['a', 'b'].map((letter) => letter.repeat(500_000))
      await put(place, 'f', contents[0])
      let isOver = false
      const reading = (async () => {
        while (!isOver) {
          const { body } = await get(place, 'f')
          expect(contents).toContain(body.toString())
        }
      })()
      for (let round = 0; round < 20; round++) await put(place, 'f', contents[round % 2])
      isOver = true
      await reading
    }))

  it('refuses bad modes, directories, and paths through files', () =>
    withSandboxd(async (place) => {
      mkdirSync(path.join(place.root, 'd'))
      writeFileSync(path.join(place.root, 'f'), '')
      for (const mode of ['0999', '777', 'abcd', '01777', '0o644', '-644'])
        expect(refusal(await put(place, `x?mode=${mode}`)), mode).toEqual([400, 'INVALID_ARGUMENT'])
      expect(refusal(await put(place, 'd'))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(refusal(await put(place, ''))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(refusal(await put(place, 'f/x'))).toEqual([400, 'INVALID_ARGUMENT'])
      expect(existsSync(path.join(place.root, 'x'))).toBe(false)
    }))
})

describe('DELETE', () => {
  const remove = (place: Place, target: string) => place.rest('DELETE', `${FILES}/${target}`)

  it('removes files, links and empty directories', () =>
    withSandboxd(async (place) => {
      const at = (name: string) => path.join(place.root, name)
      writeFileSync(at('f'), 'kept')
      symlinkSync('f', at('link'))
      symlinkSync('/etc/passwd', at('escape'))
      mkdirSync(at('d'))
      for (const name of ['link', 'escape', 'd']) expect((await remove(place, name)).status).toBe(204)
      expect(readdirSync(place.root)).toEqual(['f'])
      expect((await remove(place, 'f')).status).toBe(204)
      expect(refusal(await remove(place, 'f'))).toEqual([404, 'NOT_FOUND'])
    }))

  it('removes a directory with its content only with recursive', () =>
    withSandboxd(async (place) => {
      mkdirSync(path.join(place.root, 'd/e/f'), { recursive: true })
      symlinkSync('/etc', path.join(place.root, 'd/link'))
      for (const target of ['d', 'd?recursive=false', 'd?recursive=0'])
        expect(refusal(await remove(place, target))).toEqual([409, 'CONFLICT'])
      expect(refusal(await remove(place, 'd?recursive=banana'))).toEqual([400, 'INVALID_ARGUMENT'])
      expect((await remove(place, 'd?recursive=true')).status).toBe(204)
      expect(readdirSync(place.root)).toEqual([])
      expect(existsSync('/etc/passwd')).toBe(true)
    }))

  it('empties the root and never removes it', () =>
    withSandboxd(async (place) => {
      mkdirSync(path.join(place.root, 'd/e'), { recursive: true })
      writeFileSync(path.join(place.root, 'f'), '')
      expect(refusal(await remove(place, ''))).toEqual([409, 'CONFLICT'])
      expect((await remove(place, '?recursive=true')).status).toBe(204)
      expect(readdirSync(place.root)).toEqual([])
      expect((await remove(place, '%2F?recursive=1')).status).toBe(204)
      expect(existsSync(place.root)).toBe(true)
    }))
})

describe('paths', () => {
  it('stay below the root, however they are written', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.workplace.directory, 'secret'), 's')
      const targets = [
        '../secret',
        '%2E%2E/secret',
        '%2e%2e%2fsecret',
        '..%2Fsecret',
        'x/../../secret',
        'x%2F..%2F%2E.%2Fsecret',
        '%2E%2E/%2E%2E/etc/passwd',
        '..',
        './/..//',
      ]
      for (const target of targets)
        for (const method of ['GET', 'PUT', 'DELETE']) {
          const answer = await place.rest(method, `${FILES}/${target}`, method === 'PUT' ? 'x' : undefined)
          expect(refusal(answer), `${method} ${target}`).toEqual([403, 'PERMISSION_DENIED'])
        }
      // Relative to the root, as everything.
      expect(refusal(await get(place, '%2Fetc%2Fpasswd'))).toEqual([404, 'NOT_FOUND'])
      expect(readdirSync(place.workplace.directory).sort()).toEqual(['root', 'secret'])
    }))

  it('do not follow links out of the root, and follow those that stay inside', () =>
    withSandboxd(async (place) => {
      const outside = path.join(place.workplace.directory, 'outside')
      mkdirSync(outside)
      writeFileSync(path.join(outside, 'secret'), 's')
      const at = (name: string) => path.join(place.root, name)
      mkdirSync(at('d'))
      writeFileSync(at('d/f'), 'inside')
      for (const [name, target] of [
        ['out', outside],
        ['file', path.join(outside, 'secret')],
        ['up', '..'],
        ['new', path.join(outside, 'new')],
        ['etc', '/etc'],
        ['proc', '/proc/self/root'],
        ['in', 'd'],
        ['absolute', at('d/f')],
        ['round', '../root/d/f'],
      ] as const)
        symlinkSync(target, at(name))
      for (const target of [
        'out/secret',
        'file',
        'up/outside/secret',
        'etc/passwd',
        'proc/etc/passwd',
        'out',
        'up',
      ])
        expect(refusal(await get(place, target)), target).toEqual([403, 'PERMISSION_DENIED'])
      for (const target of ['out/x', 'file', 'new', 'up/x', 'out/deep/er'])
        expect(refusal(await put(place, target)), target).toEqual([403, 'PERMISSION_DENIED'])
      for (const target of ['out/secret', 'up/outside?recursive=true', 'in/../../outside'])
        expect(refusal(await place.rest('DELETE', `${FILES}/${target}`)), target).toEqual([
          403,
          'PERMISSION_DENIED',
        ])
      expect(readdirSync(outside)).toEqual(['secret'])
      expect(readFileSync(path.join(outside, 'secret'), 'utf8')).toBe('s')
      for (const target of ['in/f', 'absolute', 'round'])
        expect((await get(place, target)).body.toString(), target).toBe('inside')
      expect((await put(place, 'absolute', 'changed')).status).toBe(204)
      expect([readFileSync(at('d/f'), 'utf8'), lstatSync(at('absolute')).isSymbolicLink()]).toEqual([
        'changed',
        true,
      ])
    }))

  it('do not leave the root while a program swaps directories and links', () =>
    withSandboxd(async (place) => {
      const outside = path.join(place.workplace.directory, 'outside')
      mkdirSync(outside)
      writeFileSync(path.join(outside, 'f'), 'secret')
      const swap = `
        const fs = require('fs')
        const steps = [
          () => fs.rmSync('d', { recursive: true, force: true }),
          () => fs.symlinkSync(${JSON.stringify(outside)}, 'd'),
          () => fs.unlinkSync('d'),
          () => fs.mkdirSync('d'),
          () => fs.writeFileSync('d/f', 'inside'),
        ]
        for (;;) for (const step of steps) try { step() } catch {}`
      const started = place.start({ command: [process.execPath, '-e', swap] })
      await started.id()
      const statuses = new Set<number>()
      for (let round = 0; round < 400; round++) {
        const [read, written, removed] = await Promise.all([
          get(place, 'd/f'),
          put(place, 'd/f', 'inside'),
          round % 8 === 0 ? place.rest('DELETE', `${FILES}/d/g`) : get(place, 'd'),
        ])
        expect(read.body.toString()).not.toContain('secret')
        for (const { status } of [read, written, removed]) statuses.add(status)
        expect(removed.body.toString()).not.toContain('secret')
      }
      started.stream.cancel()
      expect(readdirSync(outside)).toEqual(['f'])
      expect(readFileSync(path.join(outside, 'f'), 'utf8')).toBe('secret')
      expect(statuses).toContain(403)
      expect(statuses).toContain(200)
      expect(statuses).toContain(204)
    }))

  it('may have any bytes but NUL, and the lengths of the file system', () =>
    withSandboxd(async (place) => {
      const names = ['a b', 'ü', '%', '?', '#', 'a+b', "'", '"', '\\', '\n', '%2e%2e', 'x'.repeat(255)]
      for (const name of names) {
        const target = encodeURIComponent(name)
        expect((await put(place, target, name)).status, name).toBe(204)
        expect((await get(place, target)).body.toString()).toBe(name)
        expect(readFileSync(path.join(place.root, name), 'utf8')).toBe(name)
      }
      expect((await put(place, '%FF%FE', 'bytes')).status).toBe(204)
      expect((await get(place, '%ff%fe')).body.toString()).toBe('bytes')
      expect(
        readdirSync(place.root, { encoding: 'buffer' }).some((name) =>
          name.equals(Buffer.from([0xff, 0xfe])),
        ),
      ).toBe(true)
      for (const target of ['a%00b', 'a%0', 'a%zz', 'x'.repeat(256), `${'x/'.repeat(2100)}y`])
        expect(refusal(await put(place, target)), target.slice(0, 20)).toEqual([400, 'INVALID_ARGUMENT'])
    }))

  it('lead to the files that commands and nacre see', () =>
    withSandboxd(async (place) => {
      await put(place, 'from-rest', 'one')
      expect((await place.execute({ command: ['cat', 'from-rest'] })).stdout.toString()).toBe('one')
      await place.workplace.sandbox.files.write('root/from-nacre', 'two')
      expect((await get(place, 'from-nacre')).body.toString()).toBe('two')
    }))

  it('survive the removal of the root and of the session', () =>
    withSandboxd(async (place) => {
      await put(place, 'f', 'x')
      await place.workplace.sandbox.deleteSession('sandboxd')
      expect((await get(place, 'f')).body.toString()).toBe('x')
      expect((await place.execute({ command: ['echo', 'on'] })).stdout.toString()).toBe('on\n')
      renameSync(place.root, `${place.root}-moved`)
      expect(refusal(await get(place, 'f'))).toEqual([404, 'NOT_FOUND'])
      mkdirSync(place.root)
      expect((await put(place, 'f', 'again')).status).toBe(204)
      expect((await place.execute({ command: ['cat', 'f'] })).stdout.toString()).toBe('again')
      rmSync(`${place.root}-moved`, { recursive: true })
    }))

  it('do not share hard links that others hold', () =>
    withSandboxd(async (place) => {
      writeFileSync(path.join(place.root, 'one'), 'old')
      linkSync(path.join(place.root, 'one'), path.join(place.root, 'two'))
      await put(place, 'one', 'new')
      expect((await get(place, 'two')).body.toString()).toBe('old')
    }))
})
