/** What all projects of `examples/` have in common. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { EXAMPLES } from '../helpers/example.js'

const read = (...names: string[]) => readFileSync(path.join(EXAMPLES, ...names), 'utf8')
const names = readdirSync(EXAMPLES).filter((name) => existsSync(path.join(EXAMPLES, name, 'package.json')))
/** The version that the tests of the examples link. */
const testedVersion = (name: string) => JSON.parse(read('../node_modules', name, 'package.json')).version

describe('examples', () => {
  it('are eleven', () => expect(names.length).toBe(11))

  for (const name of names) {
    it(`${name} has a README that is listed, and a test`, () => {
      expect(read('README.md')).toContain(`| [${name}](${name}) |`)
      expect(read(name, 'README.md')).toMatch(/^# /)
      expect(existsSync(path.join(__dirname, `${name}.test.ts`))).toBe(true)
    })

    it(`${name} depends on this clone of nacre, and otherwise on the versions that are tested`, () => {
      const { nacre, ...others } = JSON.parse(read(name, 'package.json')).dependencies
      expect(nacre).toBe('file:../..')
      for (const [other, version] of Object.entries(others)) {
        const [, companion] = /^@nacre\/(.*)$/.exec(other) ?? []
        expect(version).toBe(companion ? `file:../../packages/${companion}` : testedVersion(other))
      }
    })
  }
})
