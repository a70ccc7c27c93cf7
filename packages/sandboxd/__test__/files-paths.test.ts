/** Paths of files over REST: they stay below the root. */
import {
  linkSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { FILES, get, put, refusal } from './files.js'
import { withSandboxd } from './place.js'

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
