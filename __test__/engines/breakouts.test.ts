/**
 * The attempts of __test__/isolation, made where the server of `openSandbox` runs: by root in a container of Podman, for the user
 * of the project and for root. Run by `npm run test:engines`.
 */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { holds } from '../helpers/until.js'
import { type Attempt, attempts } from '../isolation/attempts/index.js'
import { Programs } from '../isolation/tiers.js'
import { programs, removeAll, USER } from './real-podman.js'

/** The image has a smaller perl of the same release of Debian. */
const PERL = ['/usr/share/perl', `/usr/lib/${process.arch === 'x64' ? 'x86_64' : 'aarch64'}-linux-gnu/perl`]

let place: string
let copy: Programs
let sandbox: EngineSandbox

beforeAll(async () => {
  process.env.PATH = `${programs}${path.delimiter}${process.env.PATH}`
  place = realpathSync(mkdtempSync(path.join(os.tmpdir(), 'nacre-podman-')))
  process.env.XDG_CACHE_HOME = path.join(place, 'cache')
  mkdirSync(path.join(place, 'project'))
  copy = new Programs('runner.mjs', 'servers.pl')
  const mounts = [copy.directory, ...PERL].map((source) => ({ source, readOnly: true }))
  const cwd = path.join(place, 'project')
  // For commands of root without isolation, the container would have no capabilities.
  const isolation = 'workspace'
  sandbox = await openSandbox({ where: 'container', engine: 'podman', cwd, isolation, pull: 'never', mounts })
}, 120_000)

afterAll(async () => {
  await sandbox?.destroy()
  await holds(removeAll)
  copy?.remove()
  rmSync(place, { recursive: true, force: true })
})

interface Outcome {
  escaped: boolean
  failed?: string
}

/** Makes attempts beside the server of the container, with the same rights. */
function run(task: object): Record<string, Outcome> {
  const { NACRE_NATIVE = '' } = process.env
  const env = ['--env', `NACRE_NATIVE=${NACRE_NATIVE}`, '--env', 'HOME=/var/tmp']
  const files = ['runner.mjs', 'dist/index.js'].map((name) => path.join(copy.directory, name))
  const words = [
    'exec',
    '--interactive',
    '--user',
    '0:0',
    ...env,
    sandbox.container?.name ?? '',
    'node',
    ...files,
  ]
  const input = JSON.stringify({ by: 'session', hasMounts: true, ...task })
  return JSON.parse(execFileSync(path.join(programs, 'podman'), words, { encoding: 'utf8', input }))
}

/** Without those of durable jobs, and without a system call that the filter of Podman's containers may not know. */
const list = attempts.filter(({ name }: Attempt) => !/durable job|fchmodat2/.test(name))

const isolation = {
  filesystem: { write: ['.'], protect: ['.git/hooks', '.git/config'] },
  network: 'none',
  processes: 'own',
}

it('they work without isolation, as root', () => {
  const working = list.filter(({ works }) => works)
  const outcomes = run({ attempts: working })
  const harmless = working.filter(({ name }) => !outcomes[name]?.escaped)
  expect(harmless.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
}, 300_000)

it.each([
  ['the user of the project', USER],
  ['root', undefined],
])(
  'none works with isolation, as %s',
  (_, user) => {
    const outcomes = run({ attempts: list, isolation, user })
    const bad = list.filter(({ name }) => outcomes[name]?.escaped !== false || outcomes[name]?.failed)
    expect(bad.map(({ name }) => `${name}: ${JSON.stringify(outcomes[name])}`)).toEqual([])
  },
  300_000,
)
