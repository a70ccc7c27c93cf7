/** What a clone says when something is missing. */
import { execFileSync, spawnSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { steps } from '../../scripts/test/steps.mjs'
import { withSmallDisk } from '../helpers/namespaces.js'

const root = path.dirname(path.dirname(__dirname))
const node = execFileSync('bash', ['-c', 'type -P node'], { encoding: 'utf8' }).trim()
let base: string

beforeEach(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-clone-'))
})

afterEach(() => rmSync(base, { recursive: true }))

/** A directory for PATH with these programs, as scripts that print `versions`. */
function programs(versions: Record<string, string>): string {
  const bin = path.join(base, 'bin')
  mkdirSync(bin)
  symlinkSync('/bin/sh', path.join(bin, 'sh'))
  for (const [name, text] of Object.entries(versions)) {
    writeFileSync(path.join(bin, name), `#!/bin/sh\necho '${text}'\n`, { mode: 0o755 })
  }
  return bin
}

describe('setup', () => {
  const bash = { bash: '5.2.15(1)-release' }
  const rust = { ...bash, cargo: 'cargo 1.95.0', rustc: 'rustc 1.95.0 (59807616e 2026-04-14)' }
  const cases: Array<[string, Record<string, string>, string]> = [
    ['bash', {}, 'nacre needs bash 4.4 or newer, and there is none on PATH: install bash.'],
    [
      'a newer bash',
      { bash: '4.2.46' },
      'nacre needs bash 4.4 or newer, and the one on PATH is 4.2: install a newer one.',
    ],
    [
      'Rust',
      bash,
      'nacre is built with Rust, and there is no cargo on PATH: install Rust from https://rustup.rs.',
    ],
    [
      'a newer Rust',
      { ...rust, rustc: 'rustc 1.63.0' },
      'nacre needs Rust 1.88 or newer, and this is 1.63: run rustup update.',
    ],
    [
      'a C compiler',
      rust,
      'nacre is built with a C compiler, and there is no cc on PATH: install gcc or clang.',
    ],
  ]
  for (const [missing, versions, sentence] of cases) {
    it(`without ${missing} is reported in one sentence`, () => {
      const { status, stdout, stderr } = spawnSync(node, ['scripts/setup.mjs'], {
        cwd: root,
        encoding: 'utf8',
        env: { PATH: programs(versions) },
      })
      expect({ status, stdout, stderr }).toEqual({ status: 1, stdout: '', stderr: `${sentence}\n` })
    })
  }

  it('without enough disk is reported in one sentence', () => {
    const clone = path.join(base, 'clone')
    mkdirSync(clone)
    const script = `cp -r '${root}/scripts' '${clone}' && exec '${node}' '${clone}/scripts/setup.mjs'`
    const [program = '', ...args] = withSmallDisk(clone)
    const { status, stdout, stderr } = spawnSync(program, [...args, 'sh', '-c', script], { encoding: 'utf8' })
    const sentence = `nacre needs 2 GB of disk to build, and ${clone} has 0.0 GB free: make room there.\n`
    expect({ status, stdout, stderr }).toEqual({ status: 1, stdout: '', stderr: sentence })
  })

  it('is the first step of the tests and of the demo, which use the same build', () => {
    const { scripts } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
    expect(scripts.test).toBe('node scripts/test.mjs')
    expect(steps[0]?.run).toEqual([[process.execPath, 'scripts/setup.mjs', '--debug']])
    expect(scripts.demo).toMatch(/^node scripts\/setup\.mjs --debug && NACRE_NATIVE=debug /)
  })
})

it('npm install of a clone that is not built ends with one sentence, and leaves no command behind', () => {
  const clone = path.join(base, 'clone')
  const project = path.join(base, 'project')
  mkdirSync(project)
  cpSync(path.join(root, 'scripts/prepare.mjs'), path.join(clone, 'scripts/prepare.mjs'))
  cpSync(path.join(root, 'package.json'), path.join(clone, 'package.json'))
  writeFileSync(path.join(project, 'package.json'), '{ "private": true }')
  const args = ['install', '--offline', '--no-audit', '--no-fund', clone]
  const { status, stderr } = spawnSync('npm', args, { cwd: project, encoding: 'utf8' })
  expect(status).toBe(1)
  expect(stderr).toContain(`This clone of nacre is not built: run \`npm run setup\` in ${clone} first`)
  expect(stderr).not.toMatch(/^ +at /m)
  expect(existsSync(path.join(project, 'node_modules/.bin'))).toBe(false)
}, 60_000)

it('the lock file has every package that another needs, so that npm ci works on each platform', () => {
  const { packages } = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8'))
  const missing: string[] = []
  for (const [place, { optionalDependencies = {}, dependencies = {} }] of Object.entries<{
    optionalDependencies?: Record<string, string>
    dependencies?: Record<string, string>
  }>(packages)) {
    for (const name of [...Object.keys(optionalDependencies), ...Object.keys(dependencies)]) {
      const places = [`${place}/node_modules/${name}`, `node_modules/${name}`]
      if (!places.some((one) => one in packages)) missing.push(`${name} of ${place}`)
    }
  }
  expect(missing).toEqual([])
})

it('the lock file belongs to this package.json', () => {
  const manifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
  const locked = JSON.parse(readFileSync(path.join(root, 'package-lock.json'), 'utf8')).packages['']
  for (const key of ['version', 'devDependencies', 'dependencies', 'bin', 'engines']) {
    expect(locked[key]).toEqual(manifest[key])
  }
})
