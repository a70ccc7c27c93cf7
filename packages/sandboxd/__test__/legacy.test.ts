/** The routes of agent-sandbox's older runtime. */
import { mkdirSync, readdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { begun, ended } from './ended.js'
import { type Place, withSandboxd } from './place.js'

const execute = (place: Place, body: unknown) =>
  place.rest('POST', '/execute', JSON.stringify(body), { 'content-type': 'application/json' })

function form(name: string): { body: string; headers: Record<string, string> } {
  const disposition = `Content-Disposition: form-data; name="file"; filename="${name}"`
  return {
    body: `--limit\r\n${disposition}\r\n\r\ncontent\r\n--limit--\r\n`,
    headers: { 'content-type': 'multipart/form-data; boundary=limit' },
  }
}

describe('/execute', () => {
  it('runs shell text in the root', () =>
    withSandboxd(async (place) => {
      const { status, json } = await execute(place, { command: 'pwd; echo err >&2; exit 7' })
      const expected = { stdout: `${place.root}\n`, stderr: 'err\n', exit_code: 7, timed_out: false }
      expect([status, json()]).toEqual([200, expected])
    }))

  it('kills a command after its time limit, and when its client disconnects', () =>
    withSandboxd(async (place) => {
      const late = await execute(place, { command: 'setsid sleep 67 & sleep 67', timeout_seconds: 0.5 })
      expect(late.json()).toMatchObject({ exit_code: 124, timed_out: true })
      await ended(place)
      const leaving = new AbortController()
      const url = `http://127.0.0.1:${place.sandboxd.restPort}/execute`
      const body = JSON.stringify({ command: 'sleep 67' })
      const run = fetch(url, { method: 'POST', body, signal: leaving.signal }).catch(() => 'aborted')
      await begun(place, /\d [RS] sleep 67/)
      leaving.abort()
      expect(await run).toBe('aborted')
      await ended(place)
    }))

  it('refuses what is no command', () =>
    withSandboxd(async (place) => {
      for (const body of [
        {},
        { command: '' },
        { command: ['ls'] },
        { command: 'a\0b' },
        { command: 'true', timeout_seconds: 0 },
        { command: 'true', timeout_seconds: 1e12 },
        { command: 'x'.repeat(1_100_000) },
        null,
      ])
        expect((await execute(place, body)).status, JSON.stringify(body)?.slice(0, 60)).toBe(400)
      expect((await place.rest('POST', '/execute', 'no JSON')).status).toBe(400)
      expect((await place.rest('GET', '/execute')).status).toBe(405)
      const page = { origin: 'http://127.0.0.1' }
      expect((await place.rest('POST', '/execute', '{"command":"true"}', page)).status).toBe(403)
      expect((await execute(place, { command: 'yes' })).status).toBe(507)
    }))
})

describe('/upload, /download, /list and /exists', () => {
  it('survive the removal of the session', () =>
    withSandboxd(async (place) => {
      const { body, headers } = form('f')
      await place.workplace.sandbox.deleteSession('sandboxd')
      expect((await place.rest('POST', '/upload', body, headers)).status).toBe(200)
      expect(readFileSync(path.join(place.root, 'f'), 'utf8')).toBe('content')
      await place.workplace.sandbox.deleteSession('sandboxd')
      expect((await place.rest('GET', '/download/f')).body.toString()).toBe('content')
      await place.workplace.sandbox.deleteSession('sandboxd')
      expect((await execute(place, { command: 'cat f' })).json()).toMatchObject({ stdout: 'content' })
    }))

  it('are the same files, below the root', () =>
    withSandboxd(async (place) => {
      const upload = async (name: string) => {
        const { body, headers } = form(name)
        return (await place.rest('POST', '/upload', body, headers)).status
      }
      expect(await upload('a/b/c.txt')).toBe(200)
      expect(readFileSync(path.join(place.root, 'a/b/c.txt'), 'utf8')).toBe('content')
      expect((await place.rest('GET', '/download/a%2Fb%2Fc.txt')).body.toString()).toBe('content')
      const listed = (await place.rest('GET', '/list/a%2Fb')).json()
      expect(listed).toEqual([{ name: 'c.txt', size: 7, type: 'file', mod_time: expect.any(Number) }])
      expect((await place.rest('GET', '/exists/a')).json()).toEqual({ path: 'a', exists: true })
      expect((await place.rest('GET', '/exists/none')).json()).toEqual({ path: 'none', exists: false })
      expect((await place.rest('GET', '/download/none')).status).toBe(404)
      expect((await place.rest('GET', '/download/a')).status).toBe(400)
      mkdirSync(path.join(place.workplace.directory, 'outside'))
      writeFileSync(path.join(place.workplace.directory, 'outside/f'), 'secret')
      symlinkSync('../outside', path.join(place.root, 'out'))
      for (const name of ['../outside/new', 'out/new', 'a/../../outside/new'])
        expect(await upload(name), name).toBe(403)
      for (const name of ['', '/', '.']) expect(await upload(name), name).toBe(400)
      for (const target of [
        'download/out%2Ff',
        'list/out',
        'exists/out%2Ff',
        'download/..%2Foutside%2Ff',
        'list/..',
      ])
        expect((await place.rest('GET', `/${target}`)).status, target).toBe(403)
      expect(readdirSync(path.join(place.workplace.directory, 'outside'))).toEqual(['f'])
    }))
})
