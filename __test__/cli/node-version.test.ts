/** The entry of the command line on a Node.js that is too old. Its version is faked: a real one is not needed to refuse it. */
import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { transformSync } from 'esbuild'
import { describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'

const root = path.dirname(path.dirname(__dirname))
const main = path.join(root, 'dist', 'cli', 'main.js')
const { engines } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

/** Runs `nacre` in a process whose runtime claims to be another version. */
function runAs(version: string, ...words: string[]) {
  const directory = temporary('nacre-version-')
  const preload = path.join(directory, 'preload.cjs')
  writeFileSync(
    preload,
    `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`,
  )
  const flag = process.versions.bun === undefined ? '--require' : '--preload'
  const { status, stdout, stderr } = spawnSync(process.execPath, [flag, preload, main, ...words], {
    encoding: 'utf8',
  })
  return { status, stdout, stderr }
}

describe('an old Node.js', () => {
  for (const version of ['18.20.8', '20.18.3', '21.7.3', '22.2.0'])
    for (const word of ['doctor', '--version'])
      it(`${version} is refused by ${word} in one sentence`, () => {
        expect(runAs(version, word)).toEqual({
          status: 1,
          stdout: '',
          stderr: `nacre: this is Node.js ${version}; install Node.js 20.19 or a later 20, or 22.3 or newer\n`,
        })
      })

  it('is not the one that package.json names', () => {
    expect(engines.node).toBe('^20.19 || >=22.3')
    for (const version of ['20.19.0', '22.3.0', '23.0.0'])
      expect(runAs(version, '--version')).toMatchObject({ status: 0, stderr: '' })
  })

  it('can parse the entry, which imports nothing before the check', () => {
    const source = readFileSync(main, 'utf8')
    const written = (target: string) => transformSync(source, { target, format: 'esm' }).code
    expect(written('node18')).toBe(written('esnext'))
    expect(source).not.toMatch(/^import\b(?! *\()/m)
    expect(source).toMatch(/\bimport\(/)
  })
})
