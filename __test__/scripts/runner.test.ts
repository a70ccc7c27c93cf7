/** The end of a run of scripts/test.mjs, in a project with tests that fail on purpose. */
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'

const root = path.dirname(path.dirname(__dirname))
const node = process.versions.bun === undefined ? process.execPath : 'node'
let base: string

const broken = "it('is broken', () => expect({ a: 1 }).toEqual({ a: 2 }))"
const flaky = `it('is flaky', () => {
  const marker = \`\${process.env.MARKERS}/\${process.versions.bun}\`
  const isSecond = existsSync(marker)
  writeFileSync(marker, '')
  expect(isSecond, 'on the first run; repeat these inputs with NACRE_SEED=12').toBe(true)
})`

beforeAll(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-runner-'))
  for (const name of ['scripts/test.mjs', 'scripts/test', 'vitest.config.mjs', 'package.json'])
    cpSync(path.join(root, name), path.join(base, name), { recursive: true })
  symlinkSync(path.join(root, 'node_modules'), path.join(base, 'node_modules'))
  writeFileSync(
    path.join(base, 'scripts/test/projects.mjs'),
    "export const projects = ['good', 'bad'].map((name) => ({ name, include: [`${name}/*.test.ts`], workers: 1 }))",
  )
  writeFileSync(
    path.join(base, 'scripts/test/steps.mjs'),
    `import { runOnBun, runOnNode } from './runners.mjs'
    export const RINGS = ['gate', 'full']
    export const steps = [
      { name: 'node', ring: 'gate', tests: { runner: runOnNode, project: 'good' } },
      { name: 'bun', ring: 'gate', tests: { runner: runOnBun, project: 'good' } },
      { name: 'bad', ring: 'full', tests: { runner: runOnNode, project: 'bad' } },
      { name: 'bad-bun', ring: 'full', tests: { runner: runOnBun, project: 'bad' } },
      { name: 'command', ring: 'full', run: [['sh', '-c', 'echo no such luck; exit 3']] },
    ]`,
  )
  const imports = "import { existsSync, writeFileSync } from 'node:fs'\nimport { expect, it } from 'vitest'\n"
  for (const [file, text] of [
    ['good/plain.test.ts', "it('passes', () => {})"],
    ['good/flaky.test.ts', flaky],
    ['bad/broken.test.ts', broken],
    ['bad/load.test.ts', "throw new Error('at load')"],
  ] as const) {
    mkdirSync(path.dirname(path.join(base, file)), { recursive: true })
    writeFileSync(path.join(base, file), imports + text)
  }
})

afterAll(() => rmSync(base, { recursive: true }))

/** The exit code and the last lines of a run in which each flaky test has yet to fail. */
function run(...args: string[]): { code: number | null; end: string[] } {
  const markers = mkdtempSync(path.join(base, 'markers-'))
  const { status, stdout } = spawnSync(node, ['scripts/test.mjs', ...args], {
    cwd: base,
    encoding: 'utf8',
    env: { ...process.env, MARKERS: markers },
  })
  const lines = stdout.trimEnd().split('\n')
  return { code: status, end: lines.slice(lines.findIndex((line) => line.startsWith('step '))) }
}

describe('a run of the tests', () => {
  it('with flaky tests is green, and ends with their names, messages and seeds', () => {
    const { code, end } = run()
    expect(code).toBe(0)
    expect(end).toContain('4 passed, 0 failed')
    const list = end.slice(end.indexOf('flaky: 2'))
    for (const step of ['node', 'bun'])
      expect(list).toContain(`  ${step} › good/flaky.test.ts › is flaky › NACRE_SEED=12`)
    expect(list.join('\n')).toContain('on the first run')
  })

  it('with flaky tests is red if it is strict', () => {
    expect(run('--strict').code).toBe(1)
  })

  it('goes on after a failure, is red, and ends with every failure within 40 lines', () => {
    const { code, end } = run('full')
    expect(code).toBe(1)
    expect(end.length).toBeLessThanOrEqual(40)
    const list = end.slice(end.indexOf('failed: 5'))
    for (const step of ['bad', 'bad-bun']) {
      expect(list).toContain(`  ${step} › bad/broken.test.ts › is broken`)
      expect(list).toContain(`  ${step} › bad/load.test.ts`)
    }
    expect(list).toContain('  command › sh -c echo no such luck; exit 3')
    expect(list).toContain('    no such luck')
    expect(list.join('\n')).toMatch(/to deeply equal [\s\S]*at load/)
  })

  it('names the rings and steps that there are', () => {
    expect(run('nosuch').code).toBe(2)
  })
})
