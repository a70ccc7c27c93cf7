/** Which rule wins where several cover a file, in each tier: `hide`, then `protect`, then `write`. */
import {
  existsSync,
  linkSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import type { Isolation } from 'nacre'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'
import { runInTier } from './run-in-tier.js'

let directory = ''

beforeEach(() => {
  // Not below /tmp, which is private with namespaces.
  directory = realpathSync(mkdtempSync('/var/tmp/nacre-precedence-'))
  for (const name of ['work', 'other']) mkdirSync(path.join(directory, name))
  writeFileSync(path.join(directory, 'other/secret'), 'SECRET')
  linkSync(path.join(directory, 'other/secret'), path.join(directory, 'other/alias'))
})

afterEach(() => rmSync(directory, { recursive: true, force: true }))

const run = (tier: string, isolation: Isolation, ...commands: string[]) =>
  runInTier(tier, directory, isolation, ...commands)

describe.each(['', 'landlock'])('with NACRE_ISOLATION=%s', (tier) => {
  it('a part of a protected tree is not writable', () => {
    const output = run(
      tier,
      { filesystem: { write: ['.'], protect: [directory] } },
      'echo x > new; ls; cat ../other/secret',
    )
    expect(output).toMatch(/Read-only file system|Permission denied/)
    expect(output).not.toMatch(/^new$/m)
    expect(output).toContain('SECRET')
  })

  it('a part of a hidden tree is neither readable nor writable', () => {
    const output = run(
      tier,
      { filesystem: { write: ['../other'], hide: ['../other'] } },
      'cat ../other/secret; echo x > ../other/new; echo $?',
    )
    expect(output).not.toContain('SECRET')
    expect(output).toMatch(/^1$/m)
  })

  it('a hidden file is hidden when a hard link to it lies beside it', () => {
    const output = run(tier, { filesystem: { hide: ['../other/secret'] } }, 'cat ../other/secret')
    expect(output).not.toContain('SECRET')
  })

  it('a link in the place of a rule opens nothing in the next session', () => {
    mkdirSync(path.join(directory, 'work/inner'))
    const swap = (name: string) => `mv ${name} was-${name}; ln -s "$PWD/../other" ${name}`
    const output = run(
      tier,
      { filesystem: { write: ['.', 'inner'] } },
      swap('inner'),
      'echo x > ../other/new; echo $?',
    )
    expect(output).not.toMatch(/^0$/m)
    expect(existsSync(path.join(directory, 'other/new'))).toBe(false)
  })

  it('a link in the place of what may be read shows nothing in the next session', () => {
    mkdirSync(path.join(directory, 'work/seen'))
    const swap = 'mv seen was; ln -s "$PWD/../other" seen'
    const output = run(
      tier,
      { filesystem: { read: ['seen'], write: ['.'] } },
      swap,
      'cat ../other/secret seen/secret',
    )
    expect(output).not.toContain('SECRET')
  })

  it('a hidden link hides what it leads to', () => {
    symlinkSync('../other', path.join(directory, 'work/link'))
    const output = run(tier, { filesystem: { hide: ['link'] } }, 'cat ../other/secret; cat link/secret')
    expect(output).not.toContain('SECRET')
    expect(output).toMatch(/No such file|Permission denied/)
  })

  it('nothing can be written to a hidden file', () => {
    const output = run(
      tier,
      { filesystem: { hide: ['../other/secret'] } },
      'echo x > ../other/secret; echo $?',
    )
    expect(output).toMatch(/Read-only file system|Permission denied/)
    expect(output).toMatch(/^1$/m)
  })

  it('`protect` shows nothing that `read` leaves out', () => {
    const output = run(
      tier,
      { filesystem: { read: ['.'], protect: ['../other'] } },
      'cat ../other/secret; echo $?',
    )
    expect(output).not.toContain('SECRET')
    expect(output).toMatch(/^1$/m)
  })

  it('a writable part of a protected tree can be read', () => {
    const output = run(
      tier,
      { filesystem: { read: ['.'], write: ['../other'], protect: ['../other'] } },
      'cat ../other/secret; echo; echo x > ../other/secret; echo $?',
    )
    expect(output).toMatch(/^SECRET$/m)
    expect(output).toMatch(/^1$/m)
  })

  it('temporary files can be made although /tmp is hidden', () => {
    const output = run(
      tier,
      { filesystem: { hide: ['/tmp'] } },
      'echo made > "$TMPDIR/file" && cat "$TMPDIR/file"',
    )
    expect(output).toBe('made\n')
  })

  it('of the directory for temporary files, programs see what the rules name, and no more', () => {
    const shared = temporary('nacre-precedence-')
    for (const name of ['named', 'other']) {
      mkdirSync(path.join(shared, name))
      writeFileSync(path.join(shared, name, 'file'), `${name.toUpperCase()}\n`)
    }
    const output = run(
      tier,
      { filesystem: { write: ['.', path.join(shared, 'named')] } },
      `cat ${shared}/named/file; cat ${shared}/other/file; ls ${shared}; ls ${path.dirname(shared)}`,
    )
    expect(output).toMatch(/^NAMED$/m)
    expect(output).not.toMatch(/^(OTHER|other)$/m)
  })
})

it('several protected trees below one directory are all protected', () => {
  mkdirSync(path.join(directory, 'work/git/hooks/inner'), { recursive: true })
  writeFileSync(path.join(directory, 'work/git/config'), '')
  const protect = ['git/config', 'git/hooks', 'git/hooks/inner']
  const output = run(
    '',
    { filesystem: { write: ['.'], protect } },
    'for file in git/config git/hooks/new git/hooks/inner/new; do echo x > "$file" || echo refused; done; echo x > git/new',
  )
  expect(output.match(/^refused$/gm)).toHaveLength(3)
  expect(readdirSync(path.join(directory, 'work/git')).sort()).toEqual(['config', 'hooks', 'new'])
})

it('a writable root does not bring back what namespaces keep out of sight', () => {
  const isolation: Isolation = { filesystem: { write: ['/'] }, processes: 'own' }
  const output = run('', isolation, `echo x > "$PWD/new" && cat new; cat /proc/${process.pid}/comm`)
  expect(output).toMatch(/^x\n.*No such file or directory/)
})
