/** Reading files and directories over REST. */
import { chmodSync, mkdirSync, readdirSync, symlinkSync, utimesSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { until } from '../../../__test__/helpers/until.js'
import { FILES, get, refusal } from './files.js'
import { withSandboxd } from './place.js'

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
