import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { readCommand, showCommand } from '../../lib/schema/command.js'

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
