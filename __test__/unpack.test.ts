/** An executable that is carried in memory is unpacked once, and what killed programs left of it is removed. */
import { readdirSync, rmSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { unpackExecutable } from '../lib/addon/unpack.js'
import { temporary } from './helpers/temporary.js'

it('removes files that a killed program has left half written, and nothing else', () => {
  const former = process.env.TMPDIR
  const base = temporary('nacre-unpack-')
  process.env.TMPDIR = base
  try {
    const bytes = Buffer.from('#!/bin/sh\n')
    const file = unpackExecutable(bytes, 'tool')
    const directory = path.dirname(file)
    const longAgo = new Date(Date.now() - 2 * 3_600_000)
    const abandoned = `${file}.0123456789abcdef`
    const fresh = `${file}.fedcba9876543210`
    const others = ['notes', 'tool-x.0123456789abcdef', `other-${'0'.repeat(16)}.0123456789abcdef`]
    const files = [abandoned, fresh, ...others.map((name) => path.join(directory, name))]
    for (const name of files) writeFileSync(name, 'part', { mode: 0o600 })
    for (const name of files) if (name !== fresh) utimesSync(name, longAgo, longAgo)
    rmSync(file)
    expect(unpackExecutable(bytes, 'tool')).toBe(file)
    expect(readdirSync(directory).sort()).toEqual(
      [...others, path.basename(file), path.basename(fresh)].sort(),
    )
  } finally {
    if (former === undefined) delete process.env.TMPDIR
    else process.env.TMPDIR = former
  }
})
