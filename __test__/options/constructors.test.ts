/** What kinds say beside their messages, which refusals.test.ts checks: JSON schemas, bounds, and paths of items. */
import { describe, expect, it } from 'vitest'
import { either, list, mapped, object, oneOf, pattern } from '../../lib/schema/constructors.js'
import { count, milliseconds } from '../../lib/schema/numbers.js'
import { refusalOf } from '../helpers/thrown.js'

function messageOf(read: (value: unknown, name: string) => unknown, value: unknown): string {
  return refusalOf(() => read(value, 'it')).message
}

it('oneOf and pattern have their rule as bounds, and oneOf its words in the schema', () => {
  const { read, json, bounds } = oneOf(['a', 'b', 'c'])
  expect(messageOf(read, 'B')).toBe("it must be 'a', 'b' or 'c', not \"B\"")
  expect(json?.schema).toEqual({ type: 'string', enum: ['a', 'b', 'c'] })
  expect(bounds).toBe('a or b or c')
  expect(pattern(/^[a-z]+$/, 'must be small letters').bounds).toBe('small letters')
})

describe('object', () => {
  const table = { a: count(1, 9), b: milliseconds }

  it('names what is missing, also if it is undefined or only a prototype has it', () => {
    expect(messageOf(object(table, ['a']).read, { b: 1 })).toBe('it.a is required')
    expect(messageOf(object(table, ['a']).read, Object.create({ a: 1 }))).toBe('it.a is required')
    expect(messageOf(object(table, ['a', 'b']).read, { a: undefined, b: 1 })).toBe(
      'it must have both a and b',
    )
  })
})

it('list names the item that it refuses, and has its own rule for the length by default', () => {
  const { read } = list(oneOf(['a', 'b']), 2, { rule: 'must be a list of letters', bounds: 'letters' })
  expect(read(['a', 'b'], 'it')).toEqual(['a', 'b'])
  expect(messageOf(read, ['a', 'c'])).toBe("it[1] must be 'a' or 'b', not \"c\"")
  expect(messageOf(read, ['a', 'a', 'a'])).toBe('it must be a list of letters, not an array')
})

it('either reads by one kind or the other, and has the schemas of both', () => {
  const word = mapped(oneOf(['all']), (name) => ({ name }))
  const { read, json } = either(word, (value) => typeof value === 'string', count(1, 9), 'all, or 1 to 9')
  expect([read('all', 'it'), read(3, 'it')]).toEqual([{ name: 'all' }, 3])
  expect([messageOf(read, 'some'), messageOf(read, 10)]).toEqual([
    ...['it must be \'all\', not "some"', 'it must be a whole number from 1 to 9, not 10'],
  ])
  expect(json?.schema).toEqual({
    anyOf: [
      { schema: { type: 'string', enum: ['all'] } },
      { schema: { type: 'integer', minimum: 1, maximum: 9 } },
    ],
  })
})
