/** What recordings and replies hide. */
import { redaction } from 'nacre/internal'
import { describe, expect, it } from 'vitest'
import { KnownSecrets } from '../lib/backends/native/secrets.js'
import { KNOWN_SECRETS, Redactor } from '../lib/base/redact.js'

const key = (content: string) => `-----BEGIN RSA PRIVATE KEY-----\n${content}\n-----END RSA PRIVATE KEY-----`

describe('a redactor', () => {
  const redactor = new redaction.Redactor(['topsecret', ...redaction.KNOWN_SECRETS])

  it('hides values, tokens and keys of several lines', () => {
    const jwt = `eyJ${'a'.repeat(20)}.eyJ${'b'.repeat(20)}.${'c'.repeat(20)}`
    const text = `a topsecret b\n${key('lines\nof it')} c ${key('another')}\nghp_${'d'.repeat(36)} ${jwt} end`
    expect(redactor.hide(text)).toBe('a [redacted] b\n[redacted] c [redacted]\n[redacted] [redacted] end')
  })

  it('leaves what is no key: one without an end, and one that is too long', () => {
    const long = key('x'.repeat(9000))
    const open = '-----BEGIN PRIVATE KEY-----\nnone'
    expect(redactor.hide(`${long} ${open}`)).toBe(`${long} ${open}`)
    expect(redactor.hide(`${long} ${key('short')} ${open}`)).toBe(`${long} [redacted] ${open}`)
  })

  it('knows how much of an end may be the beginning of a secret', () => {
    expect(redactor.uncertainEnd('text top')).toBe(3)
    expect(redactor.uncertainEnd('text topsecret ')).toBe(0)
    expect(redactor.uncertainEnd('text\n')).toBe(0)
    expect(redactor.uncertainEnd(`text ${key('open').slice(0, 40)}\nmore\n`)).toBe(46)
    expect(redactor.uncertainEnd(`text ${key('closed')}\n`)).toBe(0)
    expect(redactor.uncertainEnd('x'.repeat(20_000))).toBe(8192)
    expect(new redaction.Redactor(['two words']).uncertainEnd('text two w')).toBe(5)
  })

  it('hides half a value and more at a cut', () => {
    const value = 'abcdefghijklmnopqrst'
    const own = new redaction.Redactor([value])
    for (let length = 10; length < value.length; length++) {
      expect(own.hide(`x ${value.slice(0, length)}`, { start: false, end: true })).toBe('x [redacted]')
      expect(own.hide(`${value.slice(-length)} x`, { start: true, end: false })).toBe('[redacted] x')
    }
    const doubled = new redaction.Redactor(['abababababab'])
    expect(doubled.hide('ababababababa', { start: false, end: true })).toBe('[redacted]a')
    expect(doubled.hide('xabababababa', { start: false, end: true })).toBe('x[redacted]')
  })

  it('shows at a cut whatever is less than half a value, so that no guess can be tried letter by letter', () => {
    const value = 'abcdefghijklmnopqrst'
    const own = new redaction.Redactor([value, 'short-1!'])
    const guesses = ['short-1', 'hort-1!']
    for (let length = 1; length < 10; length++) guesses.push(value.slice(0, length), value.slice(-length))
    for (const guess of guesses)
      for (const text of [guess, `x ${guess}`, `${guess} x`])
        expect(own.hide(text, { start: true, end: true })).toBe(text)
  })

  it('takes no time that grows with the square of a value', () => {
    const values = [...Array(100).keys()].map((number) => 'a'.repeat(8100 + number))
    const own = new redaction.Redactor(values.map((value) => `${value}b`))
    expect(own.hide('a'.repeat(8099), { start: true, end: true })).toBe('[redacted]')
    expect(own.uncertainEnd('a'.repeat(8192))).toBe(8192)
  })

  it('takes no more time for many beginnings', () => {
    const many = '-----BEGIN PRIVATE KEY-----'.repeat(40_000) + '-eyJaaaaaaaa'.repeat(40_000)
    expect(redactor.hide(many) === many).toBe(true)
  })
})

describe('the secrets of a sandbox', () => {
  it('are hidden by the redactor of that sandbox, and their placeholders are shown', () => {
    const value = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
    const placeholder = `ghp_${'d'.repeat(36)}`
    const secrets = new KnownSecrets()
    const [redactor, another] = [new Redactor(KNOWN_SECRETS, secrets), new Redactor(KNOWN_SECRETS)]
    const text = `${value.slice(4)} ${placeholder}`
    expect(redactor.hide(text)).toBe(`${value.slice(4)} [redacted]`)
    secrets.add([{ value: value.slice(4), placeholder }])
    expect(redactor.hide(text)).toBe(`[redacted] ${placeholder}`)
    expect(another.hide(text)).toBe(`${value.slice(4)} [redacted]`)
    expect(redactor.hide(value)).toBe('ghp_[redacted]')
    expect(redactor.uncertainEnd('Zx9Kq')).toBe(5)
    expect(secrets.coverEnv({ names: ['A'], values: [`<${value.slice(4)}>`] }).values).toEqual([
      `<${placeholder}>`,
    ])
    redactor.follow(undefined)
    expect(redactor.hide(text)).toBe(another.hide(text))
  })

  it('stay, and those of its sessions are the newest 500, with four values of one function', () => {
    const secret = (number: number, placeholder = `placeholder-of-${number}`) => ({
      value: `the-value-${number}`,
      placeholder,
    })
    const secrets = new KnownSecrets([secret(0)])
    for (let number = 1; number <= 600; number++) secrets.add([secret(number)])
    const numbers = () => [...secrets.placeholders.keys()].map((value) => Number(value.slice(10)))
    expect(numbers()).toEqual([0, ...Array(500).keys()].map((at, index) => (index === 0 ? at : at + 101)))
    for (let number = 700; number < 800; number++) secrets.add([secret(number, 'one-placeholder')])
    expect(numbers().length).toBe(501)
    expect(numbers().slice(-5)).toEqual([600, 796, 797, 798, 799])
    expect(secrets.copy().placeholders).toEqual(secrets.placeholders)
  })
})
