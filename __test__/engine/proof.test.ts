/** How a container shows that it has the same files as this machine. */
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { proofs } from '../../lib/engine/proof.js'

let place: string

beforeEach(() => {
  place = mkdtempSync(path.join(os.tmpdir(), 'nacre-proof-'))
})

afterEach(() => rmSync(place, { recursive: true, force: true }))

const proofOf = (source: string, readOnly = false) => proofs([{ source, readOnly }])

it('has the hashes of the names, whatever they are', () => {
  for (const name of [Buffer.from('a\nb'), Buffer.from('ü'), Buffer.from([255]), Buffer.from('.nacre-0')])
    writeFileSync(Buffer.concat([Buffer.from(`${place}/`), name]), '')
  // crates/supervisor/src/enter.rs expects the same.
  expect(proofOf(place).words).toEqual(['names=28e4c710,119dd44a,7a0b824e', place])
})

it('is a new file in an empty directory, until it is removed', () => {
  const [one, other] = [proofOf(place), proofOf(place)]
  for (const { words } of [one, other]) {
    expect(words).toEqual([expect.stringMatching(/^has=\.nacre-[0-9a-f-]{36}$/), place])
    expect(existsSync(path.join(place, words[0]?.slice('has='.length) ?? ''))).toBe(true)
  }
  expect(one.words).not.toEqual(other.words)
  for (const { remove } of [one, other]) remove()
  expect(readdirSync(place)).toEqual([])
})

it('writes nothing to what is read-only, and compares what it can', () => {
  expect(proofOf(place, true).words).toEqual(['names=', place])
  expect(readdirSync(place)).toEqual([])
  const file = path.join(place, 'file')
  writeFileSync(file, '')
  mkdirSync(path.join(place, 'sub'))
  const missing = path.join(place, 'missing')
  const shared = [file, missing].map((source) => ({ source, readOnly: true }))
  expect(proofs(shared).words).toEqual(['file', file])
})
