/** Removing files over REST. */
import { existsSync, mkdirSync, readdirSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { FILES, refusal } from './files.js'
import { type Place, withSandboxd } from './place.js'

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
