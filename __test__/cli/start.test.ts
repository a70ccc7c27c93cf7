/** What each verb loads: the command line starts as fast as Node does, and a server takes a few hundred modules. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { temporary } from '../helpers/temporary.js'

const root = path.dirname(path.dirname(__dirname))
const main = path.join(root, 'dist', 'cli', 'main.js')

/** A name in the source of each part that only some verbs need. It also finds the part within a bundle. */
const PARTS = { hono: 'HonoRequest = class', client: 'class SandboxClient', engine: 'loadAddon' }

/** The parts that a run of the command line has loaded, and Node's own modules: all scripts in a report of V8. */
function loadedBy(words: string[]): string[] {
  const reports = temporary('nacre-start-')
  // Bun makes no such report.
  spawnSync('node', [main, ...words], {
    stdio: 'ignore',
    env: { ...process.env, NODE_V8_COVERAGE: reports, TMPDIR: reports },
  })
  const files = readdirSync(reports).filter((name) => name.startsWith('coverage-'))
  const urls = files.flatMap((name) => {
    const { result } = JSON.parse(readFileSync(path.join(reports, name), 'utf8'))
    return (result as Array<{ url: string }>).map(({ url }) => url)
  })
  const sources = urls
    .filter((url) => url.startsWith('file:'))
    .map((url) => readFileSync(fileURLToPath(url), 'utf8'))
  expect(sources.some((source) => source.includes('commander'))).toBe(true)
  const parts = Object.entries(PARTS).filter(([, name]) => sources.some((source) => source.includes(name)))
  return [...parts.map(([part]) => part), ...urls.filter((url) => url === 'node:http')]
}

describe('the command line loads', () => {
  it('neither the engine nor the server for --version, --help and a usage error', () => {
    for (const word of ['--version', '--help', 'nonsense']) expect(loadedBy([word])).toEqual([])
  })

  it('the engine alone for exec and the verbs of jobs', () => {
    for (const words of [
      ['exec', 'true'],
      ['job', 'ls'],
      ['job', 'status', 'none'],
    ]) {
      expect(loadedBy(words)).toEqual(['engine'])
    }
  })

  it('the server for serve', () => {
    // It is refused: such an address needs a token.
    expect(loadedBy(['serve', '--host', '0.0.0.0'])).toEqual(['hono', 'engine', 'node:http'])
  })
})
