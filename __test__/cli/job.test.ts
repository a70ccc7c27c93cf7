/** `nacre job`: each call is a program of its own, and the job outlives them all. */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type Cli, withCli } from '../helpers/cli.js'
import { temporary } from '../helpers/temporary.js'
import { holds } from '../helpers/until.js'

const main = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'cli', 'main.js')

it('a job is started, listed, followed, waited for and removed', () =>
  withCli(async ({ job, root }) => {
    const command = 'echo one; echo err >&2; sleep 0.3; echo "$A two"; pwd; exit 4'
    const started = await job('start', '--env', 'A=x', '--cwd', '/usr', '--name', 'a name', command)
    const id = started.stdout.trim()
    expect(started).toEqual({ code: 0, stdout: `${id}\n`, stderr: '' })
    expect(id).toMatch(/^[0-9a-z]{29}$/)
    const list = await job('ls')
    expect(list.stdout).toMatch(
      new RegExp(`^ID +STARTED +TIME +STATE +NAME\n${id}  \\S+  \\d+s +(running|exited 4) +a name\n$`),
    )
    expect(await job('logs', '-f', id)).toEqual({ code: 4, stdout: 'one\nerr\nx two\n/usr\n', stderr: '' })
    expect(await job('logs', '--cursor', '8', id)).toMatchObject({ code: 0, stdout: 'x two\n/usr\n' })
    expect(await job('wait', id)).toEqual({ code: 4, stdout: '', stderr: '' })
    expect(await job('status', id)).toEqual({ code: 0, stdout: 'exited 4\n', stderr: '' })
    expect(await job('rm', id)).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(existsSync(path.join(root, id))).toBe(false)
    const gone = await job('status', id)
    expect(gone).toMatchObject({ code: 1, stdout: '' })
    expect(gone.stderr).toBe(`nacre: there is no job '${id}'; list the jobs to see their ids\n`)
  }))

it('SIGINT and SIGTERM stop following a job and leave it running', () =>
  withCli(async ({ start, job, root }) => {
    await job('start', '--id', 'long', 'echo up; sleep 600')
    for (const [signal, code] of [
      ['SIGINT', 130],
      ['SIGTERM', 143],
    ] as const) {
      const logs = start(['job', 'logs', '-f', '--root', root, 'long'])
      await logs.printed('up')
      logs.child.kill(signal)
      const { code: found, stderr } = await logs.ended
      expect(found).toBe(code)
      expect(stderr).toContain('no longer following job long, which continues')
    }
    expect((await job('status', 'long')).stdout).toBe('running\n')
    expect(await job('wait', '--timeout', '300ms', 'long')).toMatchObject({ code: 124 })
    expect(await job('rm', 'long')).toMatchObject({ code: 1 })
    expect(await job('cancel', '--grace', '1s', 'long')).toEqual({ code: 0, stdout: '', stderr: '' })
    expect((await job('status', 'long')).stdout).toBe('killed by SIGTERM (cancelled)\n')
    expect(await job('wait', 'long')).toMatchObject({ code: 143, stderr: 'killed by SIGTERM (cancelled)\n' })
  }))

it('everything can be had as JSON', () =>
  withCli(async ({ job, root }) => {
    const started = JSON.parse(
      (await job('start', '--json', '--timeout', '1m', '--', 'echo', '--json')).stdout,
    )
    expect(started).toMatchObject({ dir: path.join(root, started.jobId) })
    const id = started.jobId
    const waited = await job('wait', '--json', id)
    expect([waited.code, JSON.parse(waited.stdout).exitCode]).toEqual([0, 0])
    expect(JSON.parse((await job('status', '--json', id)).stdout)).toMatchObject({
      state: 'exited',
      exitCode: 0,
    })
    const [one] = JSON.parse((await job('ls', '--json')).stdout)
    expect(one).toMatchObject({ jobId: id, command: 'echo --json', status: { state: 'exited' } })
    const pieces = (await job('logs', '--json', '-f', id)).stdout.trim().split('\n')
    const text = pieces.map((line) => Buffer.from(JSON.parse(line).base64, 'base64').toString()).join('')
    expect(text).toBe('--json\n')
    const [cancelled] = JSON.parse((await job('cancel', '--json', id)).stdout)
    expect(cancelled).toMatchObject({ jobId: id, status: { exitCode: 0 } })
    expect(JSON.parse((await job('rm', '--json', id)).stdout)).toEqual({ removed: [id] })
    const error = JSON.parse((await job('logs', '--json', id)).stderr)
    const message = `there is no job '${id}'; list the jobs to see their ids`
    expect(error).toEqual({ error: { code: 'JOB_NOT_FOUND', message } })
  }))

it('input comes from a file or from the standard input, bytes go through as they are', () =>
  withCli(async ({ start, job, root }) => {
    const file = path.join(path.dirname(root), 'given')
    writeFileSync(file, Buffer.from([0xff, 0, 0x0a, 0x41]))
    await job('start', '--id', 'file', '--input', file, 'wc -c; cat /dev/null')
    expect((await job('logs', '-f', 'file')).stdout.trim()).toBe('4')
    await start(['job', 'start', '--root', root, '--id', 'stdin', '--input', '-', 'sort'], 'b\na\n').ended
    expect((await job('logs', '-f', 'stdin')).stdout).toBe('a\nb\n')
  }))

it('rm --force ends a job first', () =>
  withCli(async ({ job, root }) => {
    await job('start', '--id', 'nap', 'sleep', '600')
    expect(await job('rm', '--force', 'nap')).toEqual({ code: 0, stdout: '', stderr: '' })
    await holds(() => !existsSync(path.join(root, 'nap')))
  }))

it('the list has filters, and says when the root is not there', () =>
  withCli(async ({ job, root }) => {
    const missing = await job('ls')
    expect(missing).toMatchObject({ code: 0, stdout: 'ID  STARTED  TIME  STATE  NAME\n' })
    expect(missing.stderr).toContain(`the directory ${root} does not exist`)
    await job('start', '--id', 'over', '--name', 'a', 'true')
    await job('start', '--id', 'on', '--name', 'b', 'sleep 600')
    await job('wait', 'over')
    expect((await job('ls', '--state', 'exited')).stdout).toMatch(/^ID .*\nover .*\n$/)
    expect((await job('ls', '--name', 'b')).stdout).toMatch(/^ID .*\non .*\n$/)
    expect(await job('ls', '--state', 'done')).toMatchObject({ code: 2, stdout: '' })
  }))

it('the list has the newest jobs first, and says how many it leaves out', () =>
  withCli(async ({ job, root }) => {
    const ids = Array.from({ length: 22 }, (_, number) => `job-${number}`)
    await using sandbox = new Sandbox({ jobsRoot: root })
    for (const jobId of ids) await sandbox.jobs.start({ command: 'true', jobId })
    for (const jobId of ids) await sandbox.jobs.wait(jobId)
    const listed = async (...words: string[]) => {
      const { stdout, stderr } = await job('ls', ...words)
      return [
        stdout
          .split('\n')
          .slice(1, -1)
          .map((line) => line.split(' ')[0]),
        stderr,
      ]
    }
    expect(await listed()).toEqual([
      ids.slice(2).reverse(),
      'nacre: 2 older ones are left out: list them with --limit 22\n',
    ])
    expect(await listed('--limit', '1')).toEqual([['job-21'], expect.stringContaining('21 older ones')])
    expect(await listed('--limit', '22')).toEqual([[...ids].reverse(), ''])
    expect(JSON.parse((await job('ls', '--json')).stdout)).toHaveLength(22)
    expect(JSON.parse((await job('ls', '--json', '--limit', '2')).stdout)).toMatchObject([
      { jobId: 'job-21' },
      { jobId: 'job-20' },
    ])
  }))

it('a job is isolated', () =>
  withCli(async ({ job, root }) => {
    const cwd = path.join(path.dirname(root), 'project')
    mkdirSync(cwd)
    const network = '/proc/self/ns/net'
    const command = `touch here; readlink ${network}`
    const started = await job('start', '--cwd', cwd, '--isolation', 'workspace', command)
    const { code, stdout, stderr } = await job('logs', '-f', started.stdout.trim())
    expect([code, stderr]).toEqual([0, ''])
    expect(stdout).toMatch(/^net:/)
    expect(stdout.trim()).not.toBe(readlinkSync(network))
    expect(existsSync(path.join(cwd, 'here'))).toBe(true)
    expect((await job('start', '--isolation', 'all', 'true')).stderr).toContain('--isolation')
  }))

it('prune removes the jobs that have ended, and no others', () =>
  withCli(async ({ job, root }) => {
    await job('start', '--id', 'over', 'true')
    await job('start', '--id', 'on', 'sleep 600')
    await job('wait', 'over')
    const found = (count: number) => `nacre: ended jobs to remove in ${root}: ${count}\n`
    expect(await job('prune', '--older-than', '1d')).toEqual({ code: 0, stdout: '', stderr: found(0) })
    const dry = await job('prune', '--dry-run')
    expect(dry).toMatchObject({ code: 0, stderr: found(1) })
    expect(dry.stdout).toMatch(/^ID .*\nover +\S+ +0s +exited 0 +true\n$/)
    expect(JSON.parse((await job('prune', '--dry-run', '--json')).stdout)).toEqual({
      root,
      wouldRemove: ['over'],
    })
    expect(await job('prune')).toEqual({ code: 0, stdout: 'over\n', stderr: found(1) })
    expect(JSON.parse((await job('prune', '--json')).stdout)).toEqual({ root, removed: [] })
    expect((await job('ls')).stdout).toMatch(/^ID .*\non .*\n$/)
  }))

describe('prune without --root', () => {
  /** Runs a test with one ended job in the directory that is the default for these programs. */
  async function withDefaultRoot(test: (cli: Cli, root: string) => Promise<void>): Promise<void> {
    const own = process.env.TMPDIR
    const directory = temporary('nacre-prune-')
    try {
      await withCli(async (cli) => {
        process.env.TMPDIR = directory
        await cli.nacre('job', 'start', '--id', 'over', 'true')
        await cli.nacre('job', 'wait', 'over')
        await test(cli, path.join(directory, 'sandbox-jobs'))
      })
    } finally {
      if (own === undefined) delete process.env.TMPDIR
      else process.env.TMPDIR = own
    }
  }

  it('removes nothing without a terminal, and names the remedies', () =>
    withDefaultRoot(async ({ nacre }, root) => {
      const refused = await nacre('job', 'prune')
      expect([refused.code, refused.stdout]).toEqual([2, ''])
      for (const part of [root, '--root', '--yes', '--dry-run']) expect(refused.stderr).toContain(part)
      expect(await nacre('job', 'prune', '--dry-run')).toMatchObject({
        code: 0,
        stdout: expect.stringContaining('over'),
      })
      expect(existsSync(path.join(root, 'over'))).toBe(true)
      expect(await nacre('job', 'prune', '--yes')).toMatchObject({ code: 0, stdout: 'over\n' })
      expect(existsSync(path.join(root, 'over'))).toBe(false)
    }))

  it('asks on a terminal, and removes jobs only after a yes', () =>
    withDefaultRoot(async (_, root) => {
      const answered = (answer: string) => {
        // script(1) gives it a terminal.
        const args = ['-qec', `${process.execPath} ${main} job prune`, '/dev/null']
        const { status, stdout } = spawnSync('script', args, { input: answer, encoding: 'utf8' })
        expect(stdout).toContain(`ended jobs to remove in ${root}: 1`)
        expect(stdout).toContain('any program of this user')
        return status
      }
      for (const answer of ['n\n', '\n', '']) {
        expect(answered(answer)).toBe(1)
        expect(existsSync(path.join(root, 'over'))).toBe(true)
      }
      expect(answered('y\n')).toBe(0)
      expect(existsSync(path.join(root, 'over'))).toBe(false)
    }))
})
