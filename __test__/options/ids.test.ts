import { describe, expect, it } from 'vitest'
import { identifier } from '../../lib/schema/names.js'
import { refusalOf } from '../helpers/thrown.js'

describe('identifier', () => {
  for (const id of ['a', 'default', 'A-b_c.9', '...', '.hidden', 'x'.repeat(128)]) {
    it(`takes ${id.slice(0, 20)}`, () => {
      expect(identifier.read(id, 'id')).toBe(id)
    })
  }

  const bad = [
    '../../x',
    '',
    'x'.repeat(129),
    'x'.repeat(200),
    'a/b',
    'a\0',
    '.',
    '..',
    'a b',
    'ä',
    'a\n',
    'a\\b',
    '~',
  ]
  for (const id of [...bad, 5, null, undefined, {}, ['a'], new String('a')]) {
    it(`refuses ${typeof id} ${JSON.stringify(id)?.slice(0, 20)}`, () => {
      const error = refusalOf(() => identifier.read(id, 'sessionId'))
      expect(error.code).toBe('INVALID_ID')
      expect(error.message).toMatch(/^sessionId must be 1 to 128 characters/)
      expect(error.message.length).toBeLessThan(200)
    })
  }
})
