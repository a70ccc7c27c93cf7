/** scripts/vendor-suites.mjs, with small suites that have the form of E2B's. */
import { execFileSync, spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { temporary } from '../../../__test__/helpers/temporary.js'

const root = path.resolve(__dirname, '../../..')
const own = (name: string) =>
  JSON.parse(readFileSync(path.join(root, 'packages/compat/suites', `${name}.json`), 'utf8'))

const MINUTES = 60_000

interface Vendor {
  /** Changes members of the description of the suite. */
  describe(changes: object): void
  expected(): string[]
  run(...words: string[]): { status: number | null; output: string }
}

/** Runs a test with a repository of the vendor, and a suite that is described like the real one. */
function withVendor(
  suite: string,
  files: Record<string, string>,
  own: object,
  test: (vendor: Vendor) => void,
): void {
  const directory = temporary('nacre-vendor-')
  const repository = path.join(directory, 'repository')
  for (const [name, content] of Object.entries(files)) {
    const file = path.join(repository, name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, content)
  }
  const git = (...words: string[]) =>
    execFileSync('git', ['-c', 'user.name=A', '-c', 'user.email=a@example.com', ...words], {
      cwd: repository,
      encoding: 'utf8',
    })
  git('init', '--quiet')
  git('add', '.')
  git('commit', '--quiet', '-m', 'tests')
  const commit = git('rev-parse', 'HEAD').trim()
  const suites = path.join(directory, 'suites')
  mkdirSync(suites)
  const list = path.join(suites, `${suite}.json`)
  const description = { ...own, repository: `file://${repository}`, commit, expected: [], reasons: {} }
  writeFileSync(list, JSON.stringify(description))
  test({
    describe(changes) {
      writeFileSync(list, JSON.stringify({ ...JSON.parse(readFileSync(list, 'utf8')), ...changes }))
    },
    expected: () => JSON.parse(readFileSync(list, 'utf8')).expected,
    run(...words) {
      const script = path.join(root, 'scripts/vendor-suites.mjs')
      const { status, stdout, stderr } = spawnSync('node', [script, '--suites', suites, ...words], {
        encoding: 'utf8',
        env: { ...process.env, TMPDIR: directory },
      })
      return { status, output: stdout + stderr }
    },
  })
}

const JAVASCRIPT = `
import { Sandbox } from 'e2b'
import { describe, expect, it } from 'vitest'

it('runs a command', async () => {
  const sandbox = await Sandbox.create()
  expect((await sandbox.commands.run('echo out')).stdout).toBe('out\\n')
  await sandbox.kill()
})
describe('a "snapshot" <of memory>', () => {
  it('is made', async () => {
    const sandbox = await Sandbox.create()
    try { await sandbox.createSnapshot() } finally { await sandbox.kill() }
  })
})
it.skip('is skipped', () => {})
`

it('compares the failures of a suite in JavaScript with the expected ones', { timeout: 5 * MINUTES }, () => {
  const { run } = own('e2b-javascript')
  const description = {
    directory: 'packages/js-sdk',
    install: [['ln', '-s', path.join(root, 'node_modules'), 'node_modules']],
    run,
    env: {},
    least: 1,
  }
  const files = { 'packages/js-sdk/tests/sandbox/a.test.ts': JAVASCRIPT }
  withVendor('e2b-javascript', files, description, ({ describe, expected, run }) => {
    const snapshot = 'tests/sandbox/a.test.ts::a "snapshot" <of memory> > is made'
    const first = run()
    expect(first.output).toContain('1 of 3 tests passed')
    expect(first.output).toContain(`fails newly: ${snapshot}`)
    expect(first.status).toBe(1)
    const updated = run('--update')
    expect(expected()).toEqual([snapshot])
    expect(updated.output).toContain(`has no reason: ${snapshot}`)
    expect(updated.status).toBe(1)
    describe({ reasons: { 'tests/sandbox/a.test.ts::a "snapshot"': 'There is no memory to copy.' } })
    expect(run().status).toBe(0)
    // It may fail or pass where that is up to the machine.
    describe({ either: ['tests/sandbox/a.test.ts::'], expected: [] })
    expect(run().status).toBe(0)
    describe({ either: [] })
    const passes = 'tests/sandbox/a.test.ts::runs a command'
    const missing = 'tests/sandbox/b.test.ts::is gone'
    describe({ expected: [snapshot, passes, missing], reasons: { tests: 'None holds.' }, least: 2 })
    const { output, status } = run('e2b-javascript')
    expect(output).toContain(`no longer fails: ${passes}\n`)
    expect(output).toContain(`no longer fails: ${missing} (there is no such test)`)
    expect(output).toContain('1 tests passed, and not at least 2')
    expect(output).not.toContain('fails newly')
    expect(status).toBe(1)
    expect(run('other').output).toContain('there is no suite other.json: choose e2b-javascript.json')
  })
})

const PYTHON = `
import os, urllib.request
import pytest

def test_has_a_server():
    request = urllib.request.Request(os.environ["E2B_API_URL"] + "/v2/sandboxes")
    request.add_header("X-API-KEY", os.environ["E2B_API_KEY"])
    assert urllib.request.urlopen(request).read() == b"[]"

@pytest.fixture
def template():
    raise ValueError("<not built>")

def test_template(template):
    pass
`

const PROJECT = `
[project]
name = "small"
version = "1.0.0"

[tool.setuptools]
packages = []

[dependency-groups]
dev = ["pytest==8.4.2"]
`

it('runs a suite in Python, and names tests whose set-up fails', { timeout: 10 * MINUTES }, () => {
  const { directory, install, run } = own('e2b-python')
  const files = { [`${directory}/tests/sync/a/test_a.py`]: PYTHON, [`${directory}/pyproject.toml`]: PROJECT }
  const reasons = { 'tests.sync.a.test_a::test_template': 'Templates are not built.' }
  withVendor(
    'e2b-python',
    files,
    { directory, install, run, env: {}, least: 1 },
    ({ describe, expected, run }) => {
      describe({ reasons })
      const { output, status } = run('--update')
      expect(output).toContain('1 of 2 tests passed')
      expect(expected()).toEqual(Object.keys(reasons))
      expect(status).toBe(0)
    },
  )
})
