/** Writing files over REST, whole or in a form. */
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { FILES, form, get, put, refusal } from './files.js'
import { withSandboxd } from './place.js'

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
