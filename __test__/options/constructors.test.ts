import { describe, expect, it } from 'vitest'
import { either, list, mapped, object, oneOf, pattern } from '../../lib/schema/constructors.js'
import { count, milliseconds } from '../../lib/schema/numbers.js'
import { refusalOf } from '../helpers/thrown.js'

function messageOf(read: (value: unknown, name: string) => unknown, value: unknown): string {
  return refusalOf(() => read(value, 'it')).message
}

describe('oneOf', () => {
  it('lists its words in the message, the schema and the bounds', () => {
    const { read, json, bounds } = oneOf(['a', 'b', 'c'])
    expect(read('b', 'it')).toBe('b')
    expect(messageOf(read, 'B')).toBe("it must be 'a', 'b' or 'c', not \"B\"")
    expect(json?.schema).toEqual({ type: 'string', enum: ['a', 'b', 'c'] })
    expect(bounds).toBe('a or b or c')
    expect(messageOf(oneOf(['a', 'b']).read, null)).toBe("it must be 'a' or 'b', not null")
  })
})

describe('pattern', () => {
  it('refuses other text and other types by its rule and code', () => {
    const { read, bounds } = pattern(/^[a-z]+$/, 'must be small letters', { code: 'INVALID_ID' })
    expect(read('abc', 'it')).toBe('abc')
    for (const bad of ['', 'A', 5, ['a'], undefined]) {
      const { code, message } = refusalOf(() => read(bad, 'it'))
      expect(code).toBe('INVALID_ID')
      expect(message).toMatch(/^it must be small letters, not /)
    }
    expect(bounds).toBe('small letters')
  })

  it('never shows a secret', () => {
    expect(messageOf(pattern(/^x$/, 'must be x', { isSecret: true }).read, 'hunter2')).toBe('it must be x')
  })
})

describe('object', () => {
  const table = { a: count(1, 9), b: milliseconds }

  it('refuses a missing member, an unknown one and a bad one by its path', () => {
    expect(object(table, ['a']).read({ a: 1 }, 'it')).toEqual({ a: 1 })
    expect(messageOf(object(table, ['a']).read, { b: 1 })).toBe('it.a is required')
    expect(messageOf(object(table, ['a', 'b']).read, { a: undefined, b: 1 })).toBe(
      'it must have both a and b',
    )
    expect(messageOf(object(table).read, { c: 1 })).toBe('it has no option "c"; it has: a, b')
    expect(messageOf(object(table).read, { a: 10 })).toBe('it.a must be a whole number from 1 to 9, not 10')
  })

  it('reads no member that only a prototype has', () => {
    expect(messageOf(object(table, ['a']).read, Object.create({ a: 1 }))).toBe('it.a is required')
  })
})

describe('list', () => {
  it('names the item that it refuses, and bounds the length', () => {
    const { read } = list(oneOf(['a', 'b']), 2, { rule: 'must be a list of letters', bounds: 'letters' })
    expect(read(['a', 'b'], 'it')).toEqual(['a', 'b'])
    expect(messageOf(read, ['a', 'c'])).toBe("it[1] must be 'a' or 'b', not \"c\"")
    expect(messageOf(read, 'a')).toBe('it must be a list of letters, not "a"')
    expect(messageOf(read, ['a', 'a', 'a'])).toBe('it must be a list of letters, not an array')
  })
})

describe('either', () => {
  it('reads by one kind or the other, and has the schemas of both', () => {
    const word = mapped(oneOf(['all']), (name) => ({ name }))
    const { read, json } = either(word, (value) => typeof value === 'string', count(1, 9), 'all, or 1 to 9')
    expect(read('all', 'it')).toEqual({ name: 'all' })
    expect(read(3, 'it')).toBe(3)
    expect(messageOf(read, 'some')).toBe('it must be \'all\', not "some"')
    expect(messageOf(read, 10)).toBe('it must be a whole number from 1 to 9, not 10')
    expect(json?.schema).toEqual({
      anyOf: [
        { schema: { type: 'string', enum: ['all'] } },
        { schema: { type: 'integer', minimum: 1, maximum: 9 } },
      ],
    })
  })
})
