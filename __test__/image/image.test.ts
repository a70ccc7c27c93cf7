/**
 * The container image, built of the packages and run as docs/deploy.md says. Run by `npm run test:image`, which builds it
 * and gives it a network of its own.
 */
import { execFile, execFileSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { SandboxClient } from '../../lib/client.js'
import { until } from '../helpers/until.js'

const run = promisify(execFile)

/** From scripts/test-image.mjs. */
const given: { podman: string[]; home: string; image: string; base: string } = JSON.parse(
  process.env.NACRE_TEST_IMAGE ?? '{}',
)
const SERVER = 'http://127.0.0.1:3000'
const TOKEN = 'a'.repeat(64)
/** As in docs/deploy.md. The machine's control groups are left alone, so limits of the container are not set. */
const OPTIONS = [
  ...['--pull=never', '--init=false', '--stop-timeout=30', '--read-only', '--tmpfs=/tmp:exec'],
  ...['--tmpfs=/workspace:exec,mode=1777', '--tmpfs=/home/sandbox:exec,mode=1777'],
  ...['--cap-drop=ALL', '--security-opt=no-new-privileges', '--network=host', '--cgroups=disabled'],
  ...['--ulimit=nofile=1024:20000', '--ulimit=nproc=1024:1024'],
]

let directory: string
let client: SandboxClient

async function podman(...args: string[]): Promise<string> {
  const [program = '', ...words] = given.podman
  const env = { ...process.env, HOME: given.home }
  return (
    await run(program, [...words, ...args], { env, timeout: 40_000, killSignal: 'SIGKILL' })
  ).stdout.trim()
}

function create(name: string): Promise<string> {
  return podman(
    'create',
    '--name',
    name,
    ...OPTIONS,
    `--volume=${directory}/token:/run/secrets/nacre-token:ro`,
    given.image,
  )
}

async function pidOf(name: string): Promise<number> {
  return Number(await podman('inspect', '--format', '{{.State.Pid}}', name))
}

async function isHealthy(): Promise<true | undefined> {
  return (await fetch(`${SERVER}/healthz`).catch(() => undefined))?.status === 200 || undefined
}

const isDown = () => 'the server does not answer'

async function shell(command: string): Promise<string> {
  return (await client.exec(command, { check: true })).stdout.trim()
}

beforeAll(async () => {
  directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-container-'))
  writeFileSync(path.join(directory, 'token'), TOKEN, { mode: 0o644 })
  await create('sandbox')
  await podman('start', 'sandbox')
  await until(isHealthy, isDown)
  client = new SandboxClient({ url: SERVER, token: TOKEN })
}, 60_000)

afterAll(async () => {
  await podman('rm', '--force', '--all')
  rmSync(directory, { recursive: true, force: true })
}, 60_000)

describe('the image', () => {
  it('adds at most 90 MB to the image that it begins with', async () => {
    const size = async (name: string) =>
      Number(await podman('image', 'inspect', '--format', '{{.Size}}', name))
    const added = ((await size(given.image)) - (await size(given.base))) / 1e6
    console.log(`the image adds ${added.toFixed(1)} MB`)
    expect(added).toBeGreaterThan(1)
    expect(added).toBeLessThanOrEqual(90)
  })
})

describe('in the container', () => {
  it('the server is PID 1', async () => {
    expect(await shell("tr '\\0' ' ' </proc/1/cmdline")).toMatch(/^(\S*\/)?node \S*\/nacre serve /)
  })

  it('commands run as a user without privileges', async () => {
    expect(await shell('id -u; id -g; grep -E "^(CapEff|CapBnd|NoNewPrivs)" /proc/self/status')).toBe(
      '10001\n10001\nCapEff:\t0000000000000000\nCapBnd:\t0000000000000000\nNoNewPrivs:\t1',
    )
  })

  it('the root file system is read-only, and the working directory is not', async () => {
    expect(await shell('pwd; touch here && echo written')).toBe('/workspace\nwritten')
    for (const file of ['/x', '/opt/nacre/x', '/etc/x', '/usr/bin/x'])
      expect((await client.exec(`touch ${file}`)).stderr).toMatch(/Read-only file system|Permission denied/)
    expect(await shell('grep -c "^[^ ]* / [^ ]* ro" /proc/mounts')).toBe('1')
  })

  it('sessions, processes, streams and jobs work', async () => {
    await client.exec('x=1')
    expect(await shell('echo $x')).toBe('1')
    const process_ = await client.startProcess('echo up; sleep 60')
    await process_.waitForLog('up')
    expect(await process_.kill()).toBe(true)
    const lines: string[] = []
    for await (const line of client.execStream('seq 3').lines()) lines.push(line)
    expect(lines).toEqual(['1', '2', '3'])
    const { jobId } = await client.jobs.start({ command: 'exit 4' })
    expect((await client.jobs.wait(jobId)).exitCode).toBe(4)
  })

  it('no zombie is left of orphans', async () => {
    await shell('for i in {1..50}; do (setsid sleep 0.01 &) ; done')
    const zombies = async () =>
      (await shell('grep -l "^State:.Z" /proc/[0-9]*/status || :')) === '' || undefined
    await until(zombies, () => 'zombies are left')
  })

  it('a request without the token is refused', async () => {
    expect((await fetch(`${SERVER}/v1/sessions`)).status).toBe(401)
  })
})

it('the health check of the image succeeds, and fails when the server is stopped', async () => {
  const found = await podman('image', 'inspect', '--format', '{{json .HealthCheck}}', given.image)
  const { Test: words, Timeout: nanoseconds } = JSON.parse(found)
  expect(words[0]).toBe('CMD')
  const pid = await pidOf('sandbox')
  // In the container, as its user: what the engine does at intervals.
  const inside = ['--target', String(pid), '--mount', '--pid', '--setuid', '10001', '--setgid', '10001', '--']
  const check = () => run('nsenter', [...inside, ...words.slice(1)], { timeout: nanoseconds / 1e6 })
  await check()
  process.kill(pid, 'SIGSTOP')
  try {
    await expect(check()).rejects.toThrow()
  } finally {
    process.kill(pid, 'SIGCONT')
  }
}, 30_000)

it('a stopped container ends by itself, with everything that runs in it', async () => {
  await client.startProcess('sleep 1000')
  const pid = await pidOf('sandbox')
  await podman('stop', 'sandbox')
  expect(await podman('inspect', '--format', '{{.State.ExitCode}}', 'sandbox')).toBe('0')
  expect(() => process.kill(pid, 0)).toThrow(/ESRCH/)
  expect(execFileSync('ps', ['-eo', 'args'], { encoding: 'utf8' })).not.toContain('sleep 1000')
}, 60_000)

it('/healthz answers within 0.5 s of the start', async () => {
  const times: number[] = []
  for (let round = 0; round < 3 || (round < 10 && Math.min(...times) > 500); round++) {
    await create(`start-${round}`)
    const starting = podman('start', `start-${round}`)
    while ((await isHealthy()) === undefined) await sleep(2)
    const answered = Date.now()
    await starting
    const started = await podman(
      'inspect',
      '--format',
      '{{.State.StartedAt.Format "2006-01-02T15:04:05.999Z07:00"}}',
      `start-${round}`,
    )
    times.push(answered - Date.parse(started))
    await podman('rm', '--force', `start-${round}`)
  }
  console.log(`/healthz answers after ${times.join(', ')} ms`)
  expect(Math.min(...times)).toBeLessThanOrEqual(500)
}, 120_000)
