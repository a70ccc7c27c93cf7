import { describe, expect, it } from 'vitest'
import { directory, filePath } from '../../lib/schema/paths.js'
import { refusalOf } from '../helpers/thrown.js'

describe('directory', () => {
  it('takes paths as they are and file: URLs', () => {
    expect(directory.read('/a b', 'cwd')).toBe('/a b')
    expect(directory.read('../x', 'cwd')).toBe('../x')
    expect(directory.read(new URL('file:///a%20b/'), 'cwd')).toBe('/a b/')
  })

  const bad = ['', 'a\0b', 5, null, {}, ['/tmp'], new URL('http://x/'), new URL('file://host/x')]
  for (const value of [...bad, new URL('file:///a%2Fb'), new URL('file:///a%00b')]) {
    it(`refuses ${typeof value} ${JSON.stringify(value)}`, () => {
      const error = refusalOf(() => directory.read(value, 'cwd'))
      expect(error.code).toBe('INVALID_OPTION')
      expect(error.message).toMatch(/^cwd must be a path or a file: URL/)
    })
  }
})

describe('filePath', () => {
  it('takes strings only', () => {
    expect(filePath.read('/bin/bash', 'shell')).toBe('/bin/bash')
    for (const bad of ['', '/bin/ba\0sh', new URL('file:///bin/bash'), 5]) {
      expect(refusalOf(() => filePath.read(bad, 'shell')).message).toMatch(/^shell must be a path/)
    }
  })
})
