/** The version of a release, made in copies of this repository. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { companions } from '../../scripts/packages/companions.mjs'

const root = path.dirname(path.dirname(__dirname))
const { version: VERSION } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const [major, minor] = VERSION.split('.').map(Number)
const NEXT = `${major}.${minor + 1}.0`
const escaped = (text: string) => text.replaceAll('.', '\\.')

describe('the version of a release', () => {
  let clone: string

  beforeEach(() => {
    clone = mkdtempSync(path.join(os.tmpdir(), 'nacre-version-'))
    const list =
      'git ls-files -z | xargs -0 cp --parents --no-dereference --target-directory "$1" && git init -q "$1"'
    execFileSync('bash', ['-c', list, 'bash', clone], { cwd: root })
    symlinkSync(path.join(root, 'node_modules'), path.join(clone, 'node_modules'))
    // The changes that wait for the next release.
    for (const name of readdirSync(path.join(clone, '.changeset')))
      if (name.endsWith('.md')) rmSync(path.join(clone, '.changeset', name))
  })

  afterEach(() => rmSync(clone, { recursive: true }))

  const change = (text: string) => writeFileSync(path.join(clone, '.changeset/one.md'), text)
  const run = (name: string, ...args: string[]) =>
    spawnSync('node', [`scripts/release/${name}.mjs`, ...args], { cwd: clone, encoding: 'utf8' })
  const read = (name: string) => readFileSync(path.join(clone, name), 'utf8')

  it('is the one that the changes make, in all places, with their text in the changelog', () => {
    change("---\n'nacre': minor\n---\n\nSessions sing.\n")
    const { stdout, stderr } = run('version')
    expect([stderr, stdout]).toEqual(['', `${NEXT}\n`])
    expect(readdirSync(path.join(clone, '.changeset'))).toEqual(['config.json'])
    const section = '### Minor Changes\n\n- Sessions sing.\n'
    expect(read('CHANGELOG.md').split('\n## ').slice(0, 2)).toEqual([
      '# Changelog\n',
      `${NEXT}\n\n${section}`,
    ])
    expect(read('CHANGELOG.md').split('\n## ')[2]?.split('\n')[0]).toBe(VERSION)
    expect(run('notes', `v${NEXT}`).stdout).toBe(section)

    const { version, 'In short': times, ...bars } = JSON.parse(read('bench/released.json'))
    expect([version, times[0].slice(0, 2)]).toEqual([NEXT, ['median in ms', 'nacre']])
    for (const [, ...numbers] of [
      ...times.slice(1),
      ...Object.values<string[][]>(bars).flatMap(([, ...rows]) => rows),
    ])
      expect(numbers.join(' ')).toMatch(/\d/)

    const tree = { ...JSON.parse(read('package-lock.json')).packages }
    for (const name of ['', ...companions(root).map((name) => `packages/${name}`)]) {
      const manifest = JSON.parse(read(path.join(name, 'package.json')))
      for (const { version, peerDependencies } of [manifest, tree[name]]) {
        const own = Object.entries({ version, ...peerDependencies }).filter(([key]) => !/^@open/.test(key))
        expect(own).toEqual(own.map(([key]) => [key, NEXT]))
      }
    }
    for (const lock of ['Cargo.lock', 'fuzz/Cargo.lock'])
      expect(read(lock)).toContain(`name = "nacre-core"\nversion = "${NEXT}"`)
    const left = spawnSync(
      'git',
      ['grep', '--no-index', '-nE', `(nacre|VERSION).*[^.0-9]${escaped(VERSION)}`, '--', '.'],
      {
        cwd: clone,
        encoding: 'utf8',
      },
    )
    expect(
      left.stdout.split('\n').filter((line) => !/^(node_modules|bench\/RESULTS|__test__)/.test(line)),
    ).toEqual([''])
  }, 60_000)

  it('stays without changes, unless it has been released', () => {
    expect(run('version').stdout).toBe(`${VERSION}\n`)
    const name = ['-c', 'user.name=a', '-c', 'user.email=a@example.org']
    const git = (...args: string[]) => execFileSync('git', [...name, ...args], { cwd: clone })
    git('commit', '--quiet', '--allow-empty', '--message', 'one')
    git('tag', `v${VERSION}`)
    expect(run('version')).toMatchObject({
      status: 1,
      stderr: expect.stringMatching(
        new RegExp(
          `^Version ${escaped(VERSION)} is released already, and \\.changeset has no change since\\.`,
        ),
      ),
    })
  })

  it('is refused where a change names another package, or the changelog has no section', () => {
    change("---\n'nacra': minor\n---\n\nSessions sing.\n")
    expect(run('version').stderr).toMatch(/^The changes in \.changeset cannot be applied: .*nacra/)
    rmSync(path.join(clone, '.changeset/one.md'))
    writeFileSync(path.join(clone, 'CHANGELOG.md'), '# Changelog\n')
    expect(run('version').stderr).toBe(`CHANGELOG.md has no section '## ${VERSION}'.\n`)
    expect(run('notes', 'next').stderr).toBe('Name a tag, like v1.2.3.\n')
  })
})
