/** With a preset, the daily tools install, build and run, and leave nothing in the home directory. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  statSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { type Isolation, Sandbox, type SandboxOptions } from 'nacre'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { until } from '../helpers/until.js'
import { type Registry, startRegistry } from './registry.js'
import { BUILT } from './run-in-tier.js'
import { isRoot, ORDINARY_USER, Programs, tiers } from './tiers.js'
import { expectToWork, toolsWith } from './tools.js'

let registry: Registry
let programs: Programs

beforeAll(async () => {
  registry = await startRegistry()
  programs = new Programs('tools-runner.mjs')
})

afterAll(async () => {
  programs?.remove()
  await registry?.close()
})

/** What everything that tests nacre has. A user besides root may have another Python, and no cargo. */
const PRESENT = ['npm', 'git', 'pip']
const SYSTEM = '/usr/local/bin:/usr/bin:/bin'

describe('daily tools', () => {
  for (const tier of tiers) {
    it(`install and build a project: ${tier.name}`, async () => {
      const names = tier.uid === undefined ? [...PRESENT, 'cargo'] : PRESENT
      const tools = toolsWith(registry.url).filter(({ name }) => names.includes(name))
      // The interpreters in the home directory of root are none that another user could start.
      const env: Record<string, string> =
        tier.uid === undefined ? { RUSTUP_HOME: rustup() } : { PATH: SYSTEM }
      await expectToWork(programs, tier, { tools, allow: [registry.target], env })
    }, 180_000)
  }
})

/** cargo may be a link that finds its toolchain in the home directory of the user. */
function rustup(): string {
  return process.env.RUSTUP_HOME ?? path.join(process.env.HOME ?? '/root', '.rustup')
}

describe('caches of tools', () => {
  let base: string
  const at = (...names: string[]) => path.join(base, ...names)

  beforeEach(() => {
    // Not below /tmp, which is private to a session.
    base = mkdtempSync('/var/tmp/nacre-caches-')
    for (const name of ['home', 'one', 'two']) mkdirSync(at(name))
  })

  afterEach(() => rmSync(base, { recursive: true, force: true }))

  /** Runs a command in a sandbox of its own, with the preset `workspace`. */
  async function run(command: string, options: SandboxOptions = {}): Promise<string> {
    await using sandbox = new Sandbox({
      cwd: at('one'),
      stateDir: at('state'),
      jobsRoot: at('jobs'),
      isolation: 'workspace',
      ...options,
      env: { HOME: at('home'), npm_config_cache: undefined, ...options.env },
    })
    return (await sandbox.exec(command, { mergeOutput: true })).all.trim()
  }

  const KEEP =
    'mkdir -p "$npm_config_cache" && echo kept > "$npm_config_cache/file" && cat "$npm_config_cache/file"'
  const FIND = 'cat "$npm_config_cache/file" 2>&1'

  it('stay for the next sandbox of the project, and no other project has them', async () => {
    expect(await run(KEEP)).toBe('kept')
    expect(await run(FIND)).toBe('kept')
    expect(await run(FIND, { cwd: at('two') })).toMatch(/No such file/)
    expect(readdirSync(at('home'))).toEqual([])
    expect(readdirSync(at('state/caches')).length).toBe(2)
  })

  it('are at one place for all names of the directory', async () => {
    await run(KEEP)
    expect(await run(FIND, { cwd: `${at('one')}/../one/.` })).toBe('kept')
  })

  it('belong to the user of the programs alone', async () => {
    await run(KEEP)
    const place = await run('dirname "$npm_config_cache"')
    expect(statSync(place).mode & 0o777).toBe(0o700)
    expect(statSync(at('state/caches')).mode & 0o777).toBe(0o700)
  })

  it.skipIf(!isRoot)('belong to the user option', async () => {
    const user = { uid: ORDINARY_USER, gid: ORDINARY_USER }
    chmodSync(base, 0o755)
    expect(await run(KEEP, { user, env: { HOME: at('home') } })).toBe('kept')
    const place = await run('dirname "$npm_config_cache"; id -u', { user })
    expect(place.split('\n')[1]).toBe(String(ORDINARY_USER))
    expect(statSync(place.split('\n')[0] ?? '').uid).toBe(ORDINARY_USER)
    // Root has its own.
    expect(await run(FIND)).toMatch(/No such file/)
  })

  it('leave nothing if no tool has kept anything', async () => {
    expect(await run('test -d "$XDG_CACHE_HOME" && echo there')).toBe('there')
    await until(
      () => !existsSync(at('state/caches')),
      () => `left: ${readdirSync(at('state/caches'))}`,
    )
  })

  it('are there for programs that can read little else', async () => {
    const filesystem = { read: ['/usr', '/bin', '/lib'] }
    expect(await run(KEEP, { isolation: { preset: 'workspace', filesystem } })).toBe('kept')
    expect(await run(FIND)).toBe('kept')
  })

  it('do not open the state directory', async () => {
    mkdirSync(at('state'), { mode: 0o700 })
    writeFileSync(at('state/secret'), 'SECRET')
    expect(await run(`ls ${at('state')}; cat ${at('state/secret')} 2>&1`)).toMatch(/^caches\n.*No such file/)
    await run(KEEP, { cwd: at('two') })
    const [other = ''] = readdirSync(at('state/caches')).filter((name) => name !== 'swept')
    expect(await run(`ls ${at('state/caches', other)} 2>&1`)).toMatch(/No such file/)
  })

  it('are not those of stricter rules', async () => {
    mkdirSync(at('one/part'))
    await using sandbox = new Sandbox({
      cwd: at('one'),
      stateDir: at('state'),
      isolation: 'workspace',
      env: { HOME: at('home'), npm_config_cache: undefined },
    })
    expect((await sandbox.exec(KEEP)).stdout).toBe('kept\n')
    const stricter: Isolation[] = ['read-only', { filesystem: { write: ['part'] } }]
    for (const isolation of stricter) {
      const session = await sandbox.createSession({ isolation })
      expect((await session.exec(FIND)).stdout).toMatch(/No such file/)
      expect((await session.exec(KEEP)).stdout).toBe('kept\n')
      expect((await session.exec('touch file 2>&1')).stdout).toMatch(/Read-only file system/)
    }
  })

  it('are in the directory for temporary files where programs can write nothing else', async () => {
    const command = `${KEEP} && case $npm_config_cache in $TMPDIR/*) echo temporary; esac`
    expect(await run(command, { isolation: 'read-only' })).toBe('kept\ntemporary')
    expect(await run(FIND, { isolation: 'read-only' })).toMatch(/No such file/)
    expect(existsSync(at('state/caches'))).toBe(false)
  })

  it('are where a variable says that the program has set', async () => {
    const show = 'echo $npm_config_cache $GOCACHE'
    expect(await run(show, { env: { npm_config_cache: '/mine', GOCACHE: '/other' } })).toBe('/mine /other')
    await using sandbox = new Sandbox({ cwd: at('one'), stateDir: at('state'), isolation: 'workspace' })
    const session = await sandbox.createSession({ env: { npm_config_cache: '/session' } })
    expect((await session.exec('echo $npm_config_cache')).stdout).toBe('/session\n')
  })

  it('are private in spite of what npm sets for the program that it starts', () => {
    const program = `
      const { Sandbox } = await import(${JSON.stringify(BUILT)})
      for (const env of [{}, { ...process.env }]) {
        const sandbox = new Sandbox({ cwd: 'one', stateDir: 'state', isolation: 'workspace+network', env })
        process.stdout.write((await sandbox.exec('echo $npm_config_cache')).stdout)
        await sandbox.destroy()
      }`
    const env = { ...process.env, npm_config_cache: '/mine', npm_execpath: '/npm-cli.js' }
    const args = ['--input-type=module', '-e', program]
    const output = execFileSync(process.execPath, args, { cwd: base, env, encoding: 'utf8' })
    const places = output.trim().split('\n')
    expect(places.map((place) => place.startsWith(at('state/caches')))).toEqual([true, true])
  })

  it('are as before without a preset', async () => {
    for (const isolation of [undefined, {}, { filesystem: { write: ['.'] } }])
      expect(
        await run('echo "[$npm_config_cache$XDG_CACHE_HOME$CARGO_HOME]"', { isolation, env: NONE }),
      ).toBe('[]')
    expect(existsSync(at('state/caches'))).toBe(false)
  })

  it('are those of the user without a network, if there are any', async () => {
    mkdirSync(at('home/.npm'))
    const show = 'echo "[$npm_config_cache]"'
    expect(await run(show)).toBe('[]')
    expect(await run(show, { isolation: 'workspace+network' })).toMatch(/caches/)
  })

  it('are shared with durable jobs', async () => {
    await run(KEEP)
    await using sandbox = new Sandbox({
      cwd: at('one'),
      stateDir: at('state'),
      jobsRoot: at('jobs'),
      isolation: 'workspace',
      env: { HOME: at('home'), npm_config_cache: undefined },
    })
    const { jobId } = await sandbox.jobs.start({ command: FIND })
    expect((await sandbox.jobs.wait(jobId)).exitCode).toBe(0)
    expect((await sandbox.jobs.read(jobId)).raw).toBe('kept\n')
  })

  it('are removed when the project does not exist any more', async () => {
    await run(KEEP, { cwd: at('two') })
    const [place = ''] = readdirSync(at('state/caches')).filter((name) => name !== 'swept')
    rmSync(at('two'), { recursive: true })
    const yesterday = Date.now() / 1000 - 2 * 24 * 3600
    utimesSync(at('state/caches/swept'), yesterday, yesterday)
    await run(KEEP)
    await until(
      () => !readdirSync(at('state/caches')).some((name) => name.includes(place)),
      () => `left: ${readdirSync(at('state/caches'))}`,
    )
    expect(await run(FIND)).toBe('kept')
  })
})

const NONE = { XDG_CACHE_HOME: undefined, CARGO_HOME: undefined }
