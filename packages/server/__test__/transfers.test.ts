/** Uploads in parts over HTTP: each part is written once, and an upload that is given up leaves nothing. */
import { readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type HttpPlace, withServer } from '../../../__test__/helpers/http.js'
import { until } from '../../../__test__/helpers/until.js'

const KEEP = 60_000

/** Begins an upload of `file`, and gives its path. */
async function begin({ post }: HttpPlace, options: object = {}): Promise<string> {
  const { body } = await post('/v1/sessions/default/files/uploads', { path: 'file', keep: KEEP, ...options })
  return `/v1/uploads/${body.uploadId}`
}

async function part({ url }: HttpPlace, path: string, offset: number | string, data: string | Uint8Array) {
  const response = await fetch(`${url}${path}?offset=${offset}`, { method: 'PUT', body: data })
  return { status: response.status, body: (await response.json()) as { code?: string; error?: string } }
}

/** Resolves when nothing but these files is in the directory. */
function left({ directory }: HttpPlace, ...files: string[]): Promise<unknown> {
  return until(
    () => JSON.stringify(readdirSync(directory)) === JSON.stringify(files) || undefined,
    () => `there is ${readdirSync(directory)}`,
  )
}

describe('an upload in parts', () => {
  it('writes its parts in order, and repeated ones once', () =>
    withServer(async (place) => {
      const path = await begin(place, { mode: 0o600 })
      expect(await part(place, path, 0, 'one ')).toMatchObject({ status: 200 })
      expect(await part(place, path, 0, 'one ')).toMatchObject({ status: 200 })
      expect(await part(place, path, 4, 'two')).toMatchObject({ status: 200 })
      expect(await part(place, path, 4, '')).toMatchObject({ status: 200 })
      expect(await part(place, path, 0, 'one ')).toMatchObject({ status: 200 })
      expect((await place.post(`${path}/end`)).body).toMatchObject({ name: 'file', size: 7, mode: 0o600 })
      expect(readFileSync(`${place.directory}/file`, 'utf8')).toBe('one two')
      expect(await part(place, path, 7, 'late')).toMatchObject({
        status: 404,
        body: { code: 'UPLOAD_NOT_FOUND' },
      })
    }))

  it('writes a part once when two requests bring it at the same time', () =>
    withServer(async (place) => {
      const path = await begin(place, { append: true })
      const data = new Uint8Array(1_000_000).fill(120)
      const replies = await Promise.all([1, 2, 3].map(() => part(place, path, 0, data)))
      expect(replies.map(({ status }) => status)).toEqual([200, 200, 200])
      expect((await place.post(`${path}/end`)).body).toMatchObject({ size: 1_000_000 })
    }))

  it('refuses a part that leaves a gap, overlaps, or is too large', () =>
    withServer(async (place) => {
      const path = await begin(place)
      await part(place, path, 0, 'one')
      for (const offset of [2, 4, 'x'])
        expect(await part(place, path, offset, 'two')).toMatchObject({
          status: 400,
          body: { code: 'INVALID_OPTION' },
        })
      expect(await part(place, path, 3, new Uint8Array(8 * 1024 * 1024 + 1))).toMatchObject({
        status: 413,
        body: { code: 'PAYLOAD_TOO_LARGE' },
      })
      expect(await place.call('DELETE', path)).toMatchObject({ status: 200 })
      await left(place)
    }))

  it('replaces the file at its end only, and leaves nothing when it is cancelled', () =>
    withServer(async (place) => {
      writeFileSync(`${place.directory}/file`, 'old')
      const path = await begin(place)
      await part(place, path, 0, 'new')
      expect(readFileSync(`${place.directory}/file`, 'utf8')).toBe('old')
      expect(await place.call('DELETE', path)).toMatchObject({ status: 200 })
      await left(place, 'file')
      expect(readFileSync(`${place.directory}/file`, 'utf8')).toBe('old')
    }))

  it('leaves nothing when no request comes for the time that it is kept', () =>
    withServer(async (place) => {
      const silent = await begin(place, { keep: 100 })
      await part(place, silent, 0, 'some')
      await left(place)
      expect(await part(place, silent, 4, 'more')).toMatchObject({ body: { code: 'UPLOAD_NOT_FOUND' } })
    }))

  it('leaves nothing when the server is closed', () =>
    withServer(async (place) => {
      const path = await begin(place)
      await part(place, path, 0, 'some')
      await place.serving.close()
      await left(place)
    }))

  it('reports what cannot be written', () =>
    withServer(async (place) => {
      const path = await begin(place, { path: '/proc/1/nothing/file' })
      const { body: first } = await part(place, path, 0, 'x')
      const { body: last } = await place.post(`${path}/end`)
      expect([first.code, last.code].filter(Boolean)).toContain('FILE_NOT_FOUND')
      const { body } = await place.post('/v1/sessions/none/files/uploads', { path: 'file', keep: KEEP })
      expect(body).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    }))
})

describe('a download', () => {
  it('names the version of the file, and sends a range only of that version', () =>
    withServer(async ({ url, directory }) => {
      const file = `${directory}/file`
      writeFileSync(file, '0123456789')
      const get = (headers: Record<string, string>) =>
        fetch(`${url}/v1/sessions/default/files/content?path=file`, { headers })
      const etag = (await get({})).headers.get('etag') ?? ''
      expect(etag).toMatch(/^"[0-9a-f.-]+"$/)
      const range = { range: 'bytes=5-' }
      const same = await get({ ...range, 'if-range': etag })
      expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([206, '56789', etag])
      writeFileSync(file, '9876543210')
      const changed = await get({ ...range, 'if-range': etag })
      expect([changed.status, await changed.text()]).toEqual([200, '9876543210'])
      expect(changed.headers.get('etag')).not.toBe(etag)
    }))

  it('has no ranges of a file of /proc, whose length is not known', () =>
    withServer(async ({ url }) => {
      const get = (range?: string) =>
        fetch(`${url}/v1/sessions/default/files/content?path=/proc/self/cmdline`, {
          ...(range !== undefined && { headers: { range } }),
        })
      const whole = await (await get()).text()
      expect(whole.length).toBeGreaterThan(10)
      for (const range of ['bytes=2-5', 'bytes=-3', 'bytes=100000-']) {
        const reply = await get(range)
        expect([reply.status, await reply.text()]).toEqual([200, whole])
      }
    }))

  it('announces what there is when a file is shorter than the system says', () =>
    withServer(async ({ url }) => {
      const file = '/sys/kernel/uevent_seqnum'
      expect(statSync(file).size).toBe(4096)
      const get = (headers: Record<string, string>) =>
        fetch(`${url}/v1/sessions/default/files/content?path=${file}`, { headers })
      const whole = await get({})
      expect(await whole.text()).toMatch(/^\d+\n$/)
      const range = await get({ range: 'bytes=1-5000' })
      const length = Number(whole.headers.get('content-length'))
      expect(range.headers.get('content-range')).toBe(`bytes 1-${length - 1}/${length}`)
      expect(await range.text()).toMatch(/^\d+\n$/)
    }))
})
