import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { commandInput } from '../../lib/schema/command.js'

describe('commandInput', () => {
  it('encodes text as UTF-8 and takes bytes as they are', () => {
    expect(commandInput('aü', 'input')).toEqual(new Uint8Array([0x61, 0xc3, 0xbc]))
    const bytes = new Uint8Array([0, 255])
    expect(commandInput(bytes, 'input')).toBe(bytes)
  })

  it('takes generators, streams of Node and streams of the web', () => {
    async function* generate() {
      yield 'x'
    }
    for (const source of [generate(), Readable.from(['x']), new Blob(['x']).stream()]) {
      expect(commandInput(source, 'input') as unknown).toBe(source)
    }
  })
})
