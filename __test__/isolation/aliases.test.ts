/** A bind mount gives a path another name. What the rules close at one name is closed at the others. */
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Isolation } from 'nacre'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { withBinds } from '../helpers/namespaces.js'
import { runInTierOf } from './run-in-tier.js'

// Not below /tmp, which is private where mounts enforce the rules.
const root = realpathSync(mkdtempSync('/var/tmp/nacre-aliases-'))
const at = (name: string) => path.join(root, name)

const DIRECTORIES = [
  'work/hooks',
  'work/inner',
  'secret/deep',
  'again',
  'above',
  'elsewhere',
  'writable',
  'state',
]
const binds: [string, string][] = [
  [at('secret'), at('again')],
  [root, at('above')],
  [at('secret/deep/key'), at('file')],
  [at('secret/deep'), at('elsewhere')],
]

beforeEach(() => {
  for (const name of DIRECTORIES) mkdirSync(at(name), { recursive: true })
  writeFileSync(at('secret/deep/key'), 'KEY\n')
  writeFileSync(at('file'), '')
  writeFileSync(at('work/hooks/hook'), 'real\n')
})

afterAll(() => rmSync(root, { recursive: true, force: true }))

const NAMES = ['secret/deep/key', 'again/deep/key', 'above/secret/deep/key', 'file', 'elsewhere/key'].map(at)
const READ = NAMES.map((name) => `cat ${name}`).join('; ')

for (const tier of ['', 'landlock'])
  describe(tier === '' ? 'with namespaces' : 'with Landlock alone', () => {
    const run = (isolation: Isolation, command: string) =>
      runInTierOf(withBinds(...binds), tier, root, isolation, `{ ${command}; } 2>/dev/null; echo end`)

    it('hides every name of a hidden path, of a part of it and of what is above it', () => {
      expect(run({ filesystem: { write: ['.'] } }, READ)).toBe(`${'KEY\n'.repeat(5)}end\n`)
      for (const hide of ['secret', 'again', 'above/secret', 'secret/deep', 'elsewhere', 'file'])
        expect(run({ filesystem: { write: ['.'], hide: [at(hide)] } }, READ)).not.toContain('KEY')
      // What is beside it stays.
      const beside = `cat ${at('work/hooks/hook')} ${at('above/work/hooks/hook')}`
      expect(run({ filesystem: { hide: [at('secret')] } }, beside)).toBe('real\nreal\nend\n')
    })

    it('hides every name of a file', () => {
      for (const name of NAMES) expect(run({ filesystem: { hide: [name] } }, READ)).toBe(`end\n`)
    })

    it('protects every name of a protected path', () => {
      const isolation: Isolation = { filesystem: { write: [root], protect: [at('work/hooks')] } }
      const command = `echo fake > ${at('work/hooks/hook')}; echo fake > ${at('above/work/hooks/hook')}
        mv ${at('above/work/hooks')} ${at('above/work/gone')}; rm -rf ${at('above/work/hooks')}`
      expect(run(isolation, command)).toBe(tier === '' ? 'end\n' : 'ISOLATION_UNSUPPORTED\n')
      expect(readFileSync(at('work/hooks/hook'), 'utf8')).toBe('real\n')
    })

    it('closes a name that lies below a writable directory', () => {
      const isolation: Isolation = { filesystem: { write: [at('above')], hide: [at('secret')] } }
      const seen = run(isolation, READ)
      expect(seen).toBe(tier === '' ? 'end\n' : 'ISOLATION_UNSUPPORTED\n')
    })
  })
