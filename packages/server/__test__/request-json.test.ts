/** What a request gives is read by the kinds of its route. */
import { OptionError } from 'nacre'
import { describe, expect, it } from 'vitest'
import { thrownBy } from '../../../__test__/helpers/thrown.js'
import { data } from '../../../dist/schema/command.js'
import { list, object, pattern } from '../../../dist/schema/constructors.js'
import { env } from '../../../dist/schema/env.js'
import { identifier } from '../../../dist/schema/names.js'
import { count } from '../../../dist/schema/numbers.js'
import { abortSignal } from '../../../dist/schema/signals.js'
import { flag } from '../../../dist/schema/values.js'
import { type RequestError, readJson, shape } from '../lib/request-json.js'

const words = list(pattern(/^[a-z]+$/, 'must be a word'), 9, { rule: 'must be words', bounds: 'words' })
const size = object({ cols: count(1, 9), rows: count(1, 9) }, ['cols', 'rows'])
const body = shape({ id: identifier, data, env, size, words, force: flag, signal: abortSignal }, ['id'])

function issuesOf(json: unknown) {
  const error = thrownBy(() => readJson(body, json, 'the body')) as RequestError
  expect(error).toBeInstanceOf(OptionError)
  return { code: error.code, message: error.message, issues: error.issues }
}

describe('a body', () => {
  it('becomes what a caller would give', () => {
    const json = { id: 'a', data: { base64: '/w==' }, env: { A: '1', B: null }, size: { cols: 1, rows: 2 } }
    const read = readJson(body, json, 'the body')
    expect(read.data).toEqual(Buffer.from([255]))
    expect(read.env).toEqual({ A: '1', B: undefined })
    expect(read.size).toEqual({ cols: 1, rows: 2 })
    expect(Object.getPrototypeOf(read)).toBe(null)
    expect(Object.getPrototypeOf(read.size)).toBe(null)
  })

  it('has the faults of all members by their paths, and the code of the first', () => {
    expect(issuesOf({ id: 'a/b', size: { cols: 0 }, words: ['a', 'B'], force: 1, odd: 1 })).toEqual({
      code: 'INVALID_ID',
      message: expect.stringMatching(/^id: must be .*; size\.cols: must be .*; the body: no option "odd"/),
      issues: [
        { path: 'id', message: expect.stringMatching(/^must be 1 to 128 characters .* not "a\/b"$/) },
        { path: 'size.cols', message: 'must be a whole number from 1 to 9, not 0' },
        { path: 'size.rows', message: 'is missing; it must be a whole number from 1 to 9' },
        { path: 'words[1]', message: 'must be a word, not "B"' },
        { path: 'force', message: 'must be true or false, not 1' },
        { path: '', message: expect.stringMatching(/^no option "odd"; it has: id, data, env, size, /) },
      ],
    })
  })

  it.each([
    ['a missing member', {}],
    ['a value of another type', { id: 5 }],
    ['an item of another type', { id: 'a', words: [5] }],
    ['an option that is not sent', { id: 'a', signal: {} }],
    ['null', null],
    ['a list', []],
  ])('with %s is an INVALID_OPTION', (_, json) => expect(issuesOf(json).code).toBe('INVALID_OPTION'))

  it('has at most ten faults', () => {
    const many = Object.fromEntries(Array.from({ length: 20 }, (_, index) => [`A${index}`, 1]))
    expect(issuesOf({ env: many, force: 1 }).issues).toHaveLength(10)
    expect(issuesOf({ id: 'a', ...many }).message.match(/no option/g)).toHaveLength(10)
  })

  it('may have other members where the route ignores them', () => {
    expect(readJson(shape({ id: identifier }, [], true), { odd: 1 }, 'the body')).toEqual({})
  })

  it('has only its own properties, and every name of a variable', () => {
    const inherited = Object.assign(Object.create({ id: 'a' }), { force: true })
    expect(issuesOf(inherited).message).toMatch(/^id: is missing/)
    expect(issuesOf(JSON.parse('{"id":"a","__proto__":{"force":true}}')).message).toMatch(/"__proto__"/)
    const { env } = readJson(body, JSON.parse('{"id":"a","env":{"__proto__":"x"}}'), 'the body')
    expect(Object.entries(env ?? {})).toEqual([['__proto__', 'x']])
  })

  it('is not changed by properties that another module has added to Object.prototype', () => {
    const added = { id: 'a', type: 'string', values: {}, options: {}, json: true, anyOf: [], rule: 'must be' }
    Object.assign(Object.prototype, added)
    try {
      expect(issuesOf({}).message).toMatch(/^id: is missing/)
      expect({ ...readJson(body, { id: 'b', data: 'x' }, 'the body') }).toEqual({ id: 'b', data: 'x' })
    } finally {
      for (const name of Object.keys(added)) Reflect.deleteProperty(Object.prototype, name)
    }
  })
})
