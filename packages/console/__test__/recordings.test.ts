/** The recordings of a server over HTTP. Commands may have put anything into their directory. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gzipSync } from 'node:zlib'
import { record } from '@nacre/console'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { filesOf, withDirectory } from './places.js'

const TOKEN = 'a-token-for-recordings'

it('a server lists recordings and gives their text, to those with the token', () =>
  withDirectory(async (directory) => {
    await using sandbox = new Sandbox()
    const recorder = await record(sandbox, { directory })
    await using serving = await serve(sandbox, { port: 0, token: TOKEN, recordings: directory })
    const ask = (name: string, headers = { authorization: `Bearer ${TOKEN}` }) =>
      fetch(`${serving.url}/v1/recordings${name}`, { headers })
    await sandbox.exec('echo shown')
    await recorder.close()
    expect((await fetch(`${serving.url}/v1/recordings`)).status).toBe(401)
    const { recordings } = (await (await ask('')).json()) as { recordings: { name: string; bytes: number }[] }
    const [file = ''] = filesOf(directory, 'session-default')
    const name = path.basename(file)
    expect(recordings).toEqual([
      { name, bytes: readFileSync(file).length, modifiedAt: expect.stringMatching(/^\d{4}-.*Z$/) },
    ])
    const reply = await ask(`/${name}`)
    expect(reply.headers.get('content-type')).toBe('application/x-asciicast')
    expect(await reply.text()).toMatch(/^\{"version":3,[^\n]*\n.*shown/s)
  }))

it('a server gives no other files, and no endless ones', () =>
  withDirectory(async (directory) => {
    mkdirSync(directory)
    const put = (name: string) => path.join(directory, name)
    writeFileSync(path.join(directory, '../outside-0001.cast'), 'secret')
    symlinkSync('../outside-0001.cast', put('link-0001.cast'))
    execFileSync('mkfifo', [put('pipe-0001.cast')])
    mkdirSync(put('directory-0001.cast'))
    writeFileSync(put('bomb-0001.cast.gz'), gzipSync(Buffer.alloc(17 * 1024 * 1024)))
    writeFileSync(put('cut-0001.cast.gz'), gzipSync('cut').subarray(0, 12))
    writeFileSync(put('other.txt'), 'other')
    await using sandbox = new Sandbox()
    await using serving = await serve(sandbox, { port: 0, recordings: directory })
    const list = (await (await fetch(`${serving.url}/v1/recordings`)).json()) as {
      recordings: { name: string }[]
    }
    expect(list.recordings.map(({ name }) => name).sort()).toEqual(['bomb-0001.cast.gz', 'cut-0001.cast.gz'])
    for (const name of [
      'link-0001.cast',
      'pipe-0001.cast',
      'directory-0001.cast',
      'bomb-0001.cast.gz',
      'cut-0001.cast.gz',
      'other.txt',
      'none-0001.cast',
      '..%2Foutside-0001.cast',
      'x%2F..%2F..%2Foutside-0001.cast',
    ]) {
      const reply = await fetch(`${serving.url}/v1/recordings/${name}`)
      expect([name, reply.status]).toEqual([name, 404])
      expect(await reply.json()).toMatchObject({ code: 'FILE_NOT_FOUND' })
    }
  }))
