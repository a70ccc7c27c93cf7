/** `nacre-compat` and `nacre serve --e2b`. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'e2b'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
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
  start(words: string[]): Running
}

let places = 0

async function withBase(test: (base: Base) => Promise<void>): Promise<void> {
  const tag = `nacre-compat-cli-${process.pid}-${++places}`
  const directory = mkdtempSync(path.join(os.tmpdir(), `${tag}-`))
  const temporary = path.join(directory, 'tmp')
  mkdirSync(temporary)
  const { PATH = '', HOME = '', NACRE_NATIVE = '' } = process.env
  const env = { PATH, HOME, NACRE_NATIVE, TMPDIR: temporary, XDG_STATE_HOME: directory, NACRE_TEST_TAG: tag }
  const start = (words: string[]): Running => {
    const child = spawn(process.execPath, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
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
    expect(readdirSync(temporary).filter((name) => name.startsWith('nacre-e2b'))).toEqual([])
  } finally {
    for (const entry of proc.tagged(tag)) proc.kill(entry.pid)
    rmSync(directory, { recursive: true, force: true })
  }
}

/** Waits for the variables, and creates a sandbox that runs a command. */
async function use({ texts }: Running, { tag }: Base) {
  const env = await until(
    () => {
      const found = Object.fromEntries(
        [...texts.stdout.matchAll(/^export (\w+)=(\S+)$/gm)].map(([, name, value]) => [name, value]),
      )
      return found.E2B_SANDBOX_URL === undefined ? undefined : found
    },
    () => JSON.stringify(texts),
  )
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
  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('leaves nothing after %s but its key', (signal) =>
    withBase(async (base) => {
      const server = base.start([...program, '--e2b', '0'])
      const { words } = await use(server, base)
      server.child.kill(signal)
      expect(await server.ended).toBe(0)
      expect(proc.runs(words)).toBe(false)
      const root = path.join(base.directory, 'nacre', 'e2b')
      expect(readdirSync(root).sort()).toEqual(['key', 'sandboxes'])
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
      expect(existsSync(path.join(base.directory, 'nacre'))).toBe(false)
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

it('nacre-compat needs --e2b or --daytona', () =>
  withBase(async ({ start }) => {
    const { ended, texts } = start(COMPAT)
    expect(await ended).toBe(2)
    expect(texts.stderr).toContain('--e2b or --daytona must be given')
  }))
