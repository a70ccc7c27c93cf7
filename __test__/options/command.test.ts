import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { readCommand, showCommand } from '../../lib/schema/command.js'
import { refusalOf } from '../helpers/thrown.js'

describe('readCommand', () => {
  it('takes shell text as it is', () => {
    for (const text of ['ls', ' ls\n', '# only a comment', ';', 'if', 'x'.repeat(2 ** 21)]) {
      expect(readCommand(text)).toEqual({ text })
    }
  })

  it('takes a copy of an argument list', () => {
    const argv = ['echo', '', 'a b', '$x\n']
    const command = readCommand(argv)
    argv.push('later')
    expect(command).toEqual({ argv: ['echo', '', 'a b', '$x\n'] })
  })

  const bad: unknown[] = [
    '',
    ' ',
    '\t\r\n',
    'a\0b',
    [],
    [''],
    ['', 'x'],
    ['echo', 5],
    ['a\0'],
    ['echo', 'a\0b'],
  ]
  for (const value of [
    ...bad,
    new Array(2),
    undefined,
    null,
    5,
    {},
    { length: 1, 0: 'ls' },
    () => 'ls',
    new Set(['ls']),
  ]) {
    it(`refuses ${typeof value} ${JSON.stringify(value)}`, () => {
      const error = refusalOf(() => readCommand(value))
      expect(error.code).toBe('INVALID_COMMAND')
      expect(error.message).toMatch(/^command must /)
    })
  }
})

describe('showCommand', () => {
  it('shows text as it is and quotes arguments where bash needs it', () => {
    expect(showCommand({ text: 'ls | wc' })).toBe('ls | wc')
    expect(showCommand({ argv: ['git', 'log', '--format=%H', 'a b'] })).toBe("git log --format=%H 'a b'")
  })

  it('gives bash back the same arguments', () => {
    const argv = [
      '',
      'a b',
      "it's",
      '"',
      '$HOME',
      '`id`',
      '\\',
      '*',
      '~',
      '#',
      '!x',
      'a\nb',
      'ü',
      "''",
      '{a,b}',
      'A=1',
    ]
    const shown = showCommand({ argv: ['printf', '%s\\0', ...argv] })
    const output = execFileSync('bash', ['-c', shown], { encoding: 'utf8' })
    expect(output.split('\0').slice(0, -1)).toEqual(argv)
  })
})
