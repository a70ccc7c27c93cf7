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

  it('takes no more time for many beginnings', () => {
    const many = '-----BEGIN PRIVATE KEY-----'.repeat(40_000) + '-eyJaaaaaaaa'.repeat(40_000)
    expect(redactor.hide(many) === many).toBe(true)
  })
})

describe('the secrets of a sandbox', () => {
  it('are hidden by every redactor, and their placeholders are shown', () => {
    const value = `ghp_${'Zx9Kq2Lm7'.repeat(4)}`
    const placeholder = `ghp_${'d'.repeat(36)}`
    const redactor = new Redactor(KNOWN_SECRETS)
    const text = `${value.slice(4)} ${placeholder}`
    expect(redactor.hide(text)).toBe(`${value.slice(4)} [redacted]`)
    const secrets = new KnownSecrets()
    secrets.add([{ value: value.slice(4), placeholder }])
    expect(redactor.hide(text)).toBe(`[redacted] ${placeholder}`)
    expect(redactor.hide(value)).toBe('ghp_[redacted]')
    expect(redactor.uncertainEnd('Zx9Kq')).toBe(5)
    expect(secrets.coverEnv({ names: ['A'], values: [`<${value.slice(4)}>`] }).values).toEqual([
      `<${placeholder}>`,
    ])
  })
})
