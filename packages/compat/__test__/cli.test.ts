/** `nacre-compat`, `nacre serve --e2b` and `nacre serve --daytona`. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, statSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Daytona } from '@daytonaio/sdk'
import { Sandbox } from 'e2b'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { until } from '../../../__test__/helpers/until.js'

const COMPAT = [path.resolve(__dirname, '../dist/cli/main.js')]
const NACRE = [path.resolve(__dirname, '../../../dist/cli/main.js'), 'serve']

interface Running {
  child: ChildProcess
  texts: { stdout: string; stderr: string }
  ended: Promise<number | string>
}

interface Base {
  tag: string
  directory: string
  start(words: string[], variables?: Record<string, string>): Running
}

let places = 0

async function withBase(test: (base: Base) => Promise<void>): Promise<void> {
  const tag = `nacre-compat-cli-${process.pid}-${++places}`
  const directory = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const temporary = path.join(directory, 'tmp')
  mkdirSync(temporary)
  const { PATH = '', HOME = '', NACRE_NATIVE = '' } = process.env
  const env = { PATH, HOME, NACRE_NATIVE, TMPDIR: temporary, XDG_STATE_HOME: directory, NACRE_TEST_TAG: tag }
  const start: Base['start'] = (words, variables = {}) => {
    const child = spawn(process.execPath, words, {
      env: { ...env, ...variables },
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    const texts = { stdout: '', stderr: '' }
    for (const name of ['stdout', 'stderr'] as const)
      child[name].setEncoding('utf8').on('data', (data: string) => {
        texts[name] += data
      })
    return { child, texts, ended: once(child, 'close').then(([code, signal]) => code ?? signal) }
  }
  try {
    await test({ tag, directory, start })
    await expectNoProcess(tag, 20_000)
    expect(readdirSync(temporary).filter((name) => /^nacre-(e2b|daytona)/.test(name))).toEqual([])
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Waits for the variables, the last of which has this name. */
function variablesOf({ texts }: Running, last: string): Promise<Record<string, string>> {
  return until(
    () => {
      const found = Object.fromEntries(
        [...texts.stdout.matchAll(/^export (\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value]),
      )
      return found[last] === undefined ? undefined : found
    },
    () => JSON.stringify(texts),
  )
}

/** Waits for the variables, and creates a sandbox that runs a command. */
async function use(server: Running, { tag }: Base) {
  const env = await variablesOf(server, 'E2B_SANDBOX_URL')
  const connection = { apiKey: env.E2B_API_KEY, apiUrl: env.E2B_API_URL, sandboxUrl: env.E2B_SANDBOX_URL }
  const sandbox = await Sandbox.create({ ...connection, envs: { NACRE_TEST_TAG: tag } })
  const words = proc.uniqueSleep()
  const running = await sandbox.commands.run(`setsid ${words} & ${words}`, { background: true })
  running.wait().catch(() => {})
  await proc.untilRuns(words, 2)
  return { sandbox, words }
}

describe.each([
  ['nacre-compat', COMPAT],
  ['nacre serve', NACRE],
])('%s --e2b', (_, program) => {
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('leaves nothing after %s but its identity', (signal) =>
    withBase(async (base) => {
      const server = base.start([...program, '--e2b', '0'])
      const { words } = await use(server, base)
      server.child.kill(signal)
      expect(await server.ended).toBe(0)
      expect(proc.runs(words)).toBe(false)
      const root = path.join(base.directory, 'nacre', 'e2b')
      expect(readdirSync(root).sort()).toEqual(['id', 'records', 'sandboxes'])
      expect(readdirSync(path.join(root, 'sandboxes'))).toEqual([])
    }),
  )

  it('leaves no process after SIGKILL', () =>
    withBase(async (base) => {
      const server = base.start([...program, '--e2b', '0'])
      const { words } = await use(server, base)
      server.child.kill('SIGKILL')
      expect(await server.ended).toBe('SIGKILL')
      await until(
        () => !proc.runs(words) || undefined,
        () => `still runs: ${words}`,
      )
    }))

  it('runs a command with the variables, and ends with its exit code', () =>
    withBase(async (base) => {
      const script = `
        const { E2B_API_KEY, E2B_API_URL, E2B_SANDBOX_URL } = process.env
        const headers = { 'x-api-key': E2B_API_KEY }
        const body = JSON.stringify({ templateID: 'base' })
        fetch(E2B_API_URL + '/sandboxes', { method: 'POST', headers, body }).then(async (reply) => {
          console.log(reply.status, E2B_API_URL === E2B_SANDBOX_URL)
          process.exit(7)
        })`
      const { ended, texts } = base.start([...program, '--e2b', '--', process.execPath, '-e', script])
      expect(await ended).toBe(7)
      expect(texts.stdout).toBe('201 true\n')
      expect(readdirSync(path.join(base.directory, 'nacre'), { recursive: true })).toEqual(['compat'])
    }))

  it('passes signals on to the command', () =>
    withBase(async (base) => {
      const { ended, texts, child } = base.start([
        ...program,
        '--e2b',
        '--',
        'bash',
        '-c',
        'trap "echo trapped; exit 5" TERM; echo ready; while :; do sleep 0.05; done',
      ])
      await until(
        () => texts.stdout.includes('ready') || undefined,
        () => JSON.stringify(texts),
      )
      child.kill('SIGTERM')
      expect(await ended).toBe(5)
      expect(texts.stdout).toBe('ready\ntrapped\n')
    }))

  it('explains usage errors', () =>
    withBase(async ({ start }) => {
      for (const [words, message] of [
        [['--e2b', 'npm'], "option '--e2b [port]' argument 'npm' is invalid"],
        [['--e2b', '--isolation', 'x'], 'Allowed choices are workspace, workspace+network, none'],
        [['--e2b', '70000'], '--e2b must be'],
        [['--e2b', '0', '--max-sandboxes', '0'], '--max-sandboxes must be'],
        [['--e2b', '--', '/missing'], '/missing cannot be run: ENOENT'],
      ] as const) {
        const { ended, texts } = start([...program, ...words])
        expect(await ended, message).toBe(2)
        expect(texts.stderr).toContain(message)
      }
      const { ended, texts } = start([...program, '--e2b', '--help'])
      expect(await ended).toBe(0)
      expect(texts.stdout).toContain('--max-sandboxes')
    }))
})

describe('--daytona', () => {
  it('serves both APIs, and keeps the sandboxes of Daytona', () =>
    withBase(async (base) => {
      const root = path.join(base.directory, 'own')
      const server = base.start([...NACRE, '--daytona', '0', '--e2b', '0', '--root', root])
      await use(server, base)
      const env = await variablesOf(server, 'DAYTONA_API_URL')
      const { DAYTONA_API_KEY: apiKey, DAYTONA_API_URL: apiUrl } = env
      await using daytona = new Daytona({ apiKey, apiUrl })
      const sandbox = await daytona.create({ envVars: { NACRE_TEST_TAG: base.tag } })
      const words = proc.uniqueSleep()
      await sandbox.process.createSession('s')
      await sandbox.process.executeSessionCommand('s', { command: words, runAsync: true })
      await proc.untilRuns(words)
      server.child.kill('SIGTERM')
      expect(await server.ended).toBe(0)
      expect(proc.runs(words)).toBe(false)
      expect(readdirSync(root).sort()).toEqual(['daytona', 'e2b'])
      expect(readdirSync(path.join(root, 'e2b', 'sandboxes'))).toEqual([])
      expect(readdirSync(path.join(root, 'daytona', 'sandboxes'))).toEqual([sandbox.id])
    }))

  it('leaves no process after SIGKILL, and its sandboxes to the next server', () =>
    withBase(async (base) => {
      const connect = async () => {
        const server = base.start([...COMPAT, '--daytona', '0'])
        const env = await variablesOf(server, 'DAYTONA_API_URL')
        return { server, connection: { apiKey: env.DAYTONA_API_KEY, apiUrl: env.DAYTONA_API_URL } }
      }
      const first = await connect()
      const words = proc.uniqueSleep()
      {
        await using daytona = new Daytona(first.connection)
        const sandbox = await daytona.create({ name: 'kept', envVars: { NACRE_TEST_TAG: base.tag } })
        const running = sandbox.process.executeCommand(`echo 1 > kept; ${words}`)
        running.catch(() => {})
        await proc.untilRuns(words)
        first.server.child.kill('SIGKILL')
        expect(await first.server.ended).toBe('SIGKILL')
        await until(
          () => !proc.runs(words) || undefined,
          () => `still runs: ${words}`,
        )
      }
      const second = await connect()
      await using daytona = new Daytona(second.connection)
      const sandbox = await daytona.get('kept')
      expect(sandbox.state).toBe('stopped')
      await sandbox.start()
      expect((await sandbox.process.executeCommand('cat kept')).result).toBe('1\n')
      second.server.child.kill('SIGTERM')
      expect(await second.server.ended).toBe(0)
    }))

  it('runs a command with the variables of both, and leaves nothing', () =>
    withBase(async (base) => {
      const script = `console.log(Object.keys(process.env).filter((name) => /^(E2B|DAYTONA)_/.test(name)).sort().join())`
      const words = ['--daytona', '--e2b', '--', process.execPath, '-e', script]
      const { ended, texts } = base.start([...NACRE, ...words])
      expect(await ended).toBe(0)
      expect(texts.stdout).toBe('DAYTONA_API_KEY,DAYTONA_API_URL,E2B_API_KEY,E2B_API_URL,E2B_SANDBOX_URL\n')
      expect(readdirSync(path.join(base.directory, 'nacre'), { recursive: true })).toEqual(['compat'])
    }))

  it('explains usage errors', () =>
    withBase(async ({ start }) => {
      for (const [words, message] of [
        [['--daytona', 'npm'], "option '--daytona [port]' argument 'npm' is invalid"],
        [['--daytona=70000'], '--daytona must be'],
        [['--daytona', '0', '--max-sandboxes', '0'], '--max-sandboxes must be'],
      ] as const) {
        const { ended, texts } = start([...NACRE, ...words])
        expect(await ended, message).toBe(2)
        expect(texts.stderr).toContain(message)
      }
    }))
})

it('keeps keys from sandboxes where there is Landlock but no mount namespace', () =>
  withBase(async (base) => {
    const words = [...COMPAT, '--daytona', '0', '--e2b', '0']
    const variables = { NACRE_ISOLATION: 'landlock' }
    const root = path.join(base.directory, 'other')
    const other = base.start([...COMPAT, '--daytona', '0', '--root', root], variables)
    await variablesOf(other, 'DAYTONA_API_URL')
    const server = base.start(words, variables)
    const { sandbox } = await use(server, base)
    await sandbox.files.write('/home/user/file', 'own')
    expect((await sandbox.commands.run('cat ~/file', { cwd: '/home/user' })).stdout).toBe('own')
    const secret = path.join(base.directory, 'nacre', 'compat', 'secret')
    expect(statSync(secret).mode & 0o777).toBe(0o600)
    for (const command of [`cat ${secret}`, `ls ${root}/records`, `ls ${root}/sandboxes`]) {
      const { stdout } = await sandbox.commands.run(`${command} 2>&1 || true`)
      expect(stdout, command).toContain('Permission denied')
    }
    for (const { child, ended } of [server, other]) {
      child.kill('SIGTERM')
      expect(await ended).toBe(0)
    }
  }))

it('keeps the keys and the roots of other servers from sandboxes', () =>
  withBase(async (base) => {
    // Sandboxes have a /tmp of their own.
    const outside = temporary('nacre-compat-', '/var/tmp')
    const variables = { XDG_STATE_HOME: outside }
    const early = base.start([...COMPAT, '--e2b', '0', '--root', path.join(outside, 'early')], variables)
    const first = await use(early, base)
    const other = base.start([...COMPAT, '--daytona', '0', '--root', path.join(outside, 'other')], variables)
    const { DAYTONA_API_KEY: key = '' } = await variablesOf(other, 'DAYTONA_API_URL')
    const server = base.start([...COMPAT, '--e2b', '0'], variables)
    const { sandbox } = await use(server, base)
    const read = (word: string) => sandbox.commands.run(`grep -r ${word} ${outside} 2>&1 || true`)
    expect(key).toMatch(/^dtn_[0-9a-f]{40}$/)
    for (const root of ['early', 'other', 'nacre'])
      expect((await sandbox.commands.run(`ls -A ${outside}/${root} || true`)).stdout, root).toBe('')
    expect((await read('dtn_')).stdout).toBe('')
    // This sandbox is older than the other roots.
    const older = (word: string) => first.sandbox.commands.run(`grep -r ${word} ${outside} 2>&1 || true`)
    expect((await older('dtn_')).stdout).toContain(path.join(outside, 'other', 'id'))
    expect((await older(key)).stdout).toBe('')
    expect((await older('[0-9a-f]\\{64\\}')).stdout).toBe('')
    const { stdout } = await first.sandbox.commands.run(`ls -A ${outside}/nacre`)
    expect(stdout).toBe('')
    for (const { child, ended } of [server, other, early]) {
      child.kill('SIGTERM')
      expect(await ended).toBe(0)
    }
    const registered = () =>
      readdirSync(path.join(outside, 'nacre', 'compat')).filter((name) => name.startsWith('root-'))
    expect(registered()).toHaveLength(3)
    rmSync(path.join(outside, 'early'), { recursive: true })
    // It stays the same.
    const again = base.start([...COMPAT, '--daytona', '0', '--root', path.join(outside, 'other')], variables)
    expect((await variablesOf(again, 'DAYTONA_API_URL')).DAYTONA_API_KEY).toBe(key)
    expect(registered()).toHaveLength(2)
    again.child.kill('SIGTERM')
    expect(await again.ended).toBe(0)
  }))

it('ignores a relative XDG_STATE_HOME', () =>
  withBase(async (base) => {
    const variables = { HOME: base.directory, XDG_STATE_HOME: 'relative' }
    const server = base.start([...COMPAT, '--e2b', '0'], variables)
    await variablesOf(server, 'E2B_SANDBOX_URL')
    expect(readdirSync(path.join(base.directory, '.local', 'state', 'nacre')).sort()).toEqual([
      'compat',
      'e2b',
    ])
    expect(existsSync('relative')).toBe(false)
    server.child.kill('SIGTERM')
    expect(await server.ended).toBe(0)
  }))

it('nacre-compat needs --e2b or --daytona', () =>
  withBase(async ({ start }) => {
    const { ended, texts } = start(COMPAT)
    expect(await ended).toBe(2)
    expect(texts.stderr).toContain('--e2b or --daytona must be given')
  }))
