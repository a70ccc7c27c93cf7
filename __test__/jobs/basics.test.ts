/** Starting, reading, waiting: what every program does with jobs. */
import { existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { closedGate, itWithJobs, untilPrinted, withJobs } from '../helpers/jobs.js'

itWithJobs('a job runs, is read and ends with its code', async ({ jobs, root }) => {
  const job = await jobs.start({ command: 'echo out; echo err >&2; exit 3', processName: 'a name' })
  expect(job).toMatchObject({ dir: path.join(root, job.jobId), processName: 'a name' })
  expect(job.outputFile).toBe(path.join(job.dir, 'output.log'))
  expect(job.exitFile).toBe(path.join(job.dir, 'exit'))
  expect(JSON.parse(JSON.stringify(job))).toEqual(job)
  const status = await jobs.wait(job)
  expect(status).toMatchObject({ state: 'exited', exitCode: 3, reason: 'exit', alive: false })
  expect(await jobs.read(job)).toEqual({ raw: 'out\nerr\n', cursor: 8, bytesFetched: 8, status })
  expect(await jobs.status(job.jobId)).toEqual(status)
  expect(readFileSync(job.exitFile, 'utf8')).toBe('3\n')
  expect(statSync(job.dir).mode & 0o777).toBe(0o700)
})

itWithJobs('a death by signal has the signal and no exit code', async ({ jobs }) => {
  const job = await jobs.start({ command: 'kill -SEGV $$' })
  expect(await jobs.wait(job)).toMatchObject({ exitCode: null, signal: 'SIGSEGV', reason: 'signal' })
  expect(readFileSync(job.exitFile, 'utf8')).toBe('139\n')
})

describe('a command', () => {
  it('is text of any length, or words that no shell parses', () =>
    withJobs(async ({ jobs }) => {
      const output = async (command: string | string[]) => {
        const job = await jobs.start({ command })
        await jobs.wait(job)
        return (await jobs.read(job)).raw
      }
      const long = 'x'.repeat(1_000_000)
      expect(
        await output(
          `: ${long}\necho $LINENO $0 $#; for fd in /proc/$$/fd/*; do [ -e $fd ] && echo \${fd##*/}; done`,
        ),
      ).toBe('2 bash 0\n0\n1\n2\n')
      expect(await output("# a comment; 'quotes' \"and\" $(more)\necho 'it''s'")).toBe('its\n')
      expect(await output(['printf', '%s|', '$HOME; rm *', "'", ''])).toBe("$HOME; rm *|'||")
      expect(await output(['nacre-no-such-program'])).toBe(
        'nacre: nacre-no-such-program: command not found\n',
      )
      expect(await output(['/etc'])).toBe('nacre: the program cannot be executed\n')
      for (const text of ['-x', '+x', '--version', '-c'])
        expect(await output(text)).toMatch(`${text}: command not found`)
    }))

  it('is also a script without #!, as in a shell', () =>
    withJobs(async ({ jobs, sandbox, base }) => {
      const run = async (command: string[]) => {
        const job = await jobs.start({ command, cwd: base })
        return [(await jobs.wait(job)).exitCode, (await jobs.read(job)).raw]
      }
      for (const name of ['script', '-x']) {
        writeFileSync(path.join(base, name), 'echo "$0 $1"; exit 5', { mode: 0o755 })
        const { stdout, exitCode } = await sandbox.exec([`./${name}`, 'a b'], { cwd: base })
        expect([exitCode, stdout]).toEqual([5, `./${name} a b\n`])
        expect(await run([`./${name}`, 'a b'])).toEqual([exitCode, stdout])
      }
      writeFileSync(path.join(base, 'binary'), '\0\0\0\0', { mode: 0o755 })
      expect((await run(['./binary']))[0]).toBe(126)
    }))

  it('has the directory and the environment of the sandbox, with changes, and nothing of a session', () =>
    withJobs(
      async ({ jobs, sandbox }) => {
        await sandbox.exec('cd /usr; export FROM_SESSION=1; later() { :; }')
        const job = await jobs.start({
          command:
            'pwd; echo "$A $B $FROM_SESSION"; type later 2>/dev/null; ls -l /proc/self/fd | grep -c -- "->"',
          cwd: '../etc',
          env: { B: '2', A: undefined },
        })
        await jobs.wait(job)
        expect((await jobs.read(job)).raw).toBe('/etc\n 2 \n4\n')
      },
      { cwd: '/tmp', env: { A: '1', B: '1' } },
    ))

  it('reads its input, or end of file without one', () =>
    withJobs(async ({ jobs }) => {
      const bytes = new Uint8Array(3_000_000).fill(7)
      const [given, none, text] = await Promise.all([
        jobs.start({ command: 'wc -c', stdin: bytes }),
        jobs.start({ command: 'cat; echo end' }),
        jobs.start({ command: 'cat /dev/stdin', stdin: 'text' }),
      ])
      for (const job of [given, none, text]) await jobs.wait(job)
      expect((await jobs.read(given)).raw.trim()).toBe('3000000')
      expect((await jobs.read(none)).raw).toBe('end\n')
      expect((await jobs.read(text)).raw).toBe('text')
    }))

  it('has signals at their defaults and a process group of its own', () =>
    withJobs(async ({ jobs }) => {
      const job = await jobs.start({ command: 'kill -TERM 0; echo never' })
      expect(await jobs.wait(job)).toMatchObject({ signal: 'SIGTERM', reason: 'signal' })
      const signals = await jobs.start({ command: ['grep', '-E', '^Sig(Blk|Ign)', '/proc/self/status'] })
      await jobs.wait(signals)
      expect((await jobs.read(signals)).raw).toMatch(/^SigBlk:\t0+\nSigIgn:\t0+\n$/)
    }))
})

it('background processes of a command continue, keep the job alive, and are reaped', () =>
  withJobs(async (place) => {
    const { jobs } = place
    const gate = closedGate(place)
    const job = await jobs.start({ command: `(${gate.passed}; echo late) & echo now; exit 4` })
    const status = await jobs.wait(job)
    expect(status).toMatchObject({ state: 'exited', exitCode: 4, alive: true })
    await expect(jobs.remove(job)).rejects.toMatchObject({ code: 'JOB_RUNNING' })
    gate.open()
    expect(await untilPrinted(place, job, 'late')).toBe('now\nlate\n')
  }))

it('jobs outlive the sandbox that started them, and another one finds them', () =>
  withJobs(async ({ root, jobs }) => {
    const other = new Sandbox({ jobsRoot: root })
    const job = await other.jobs.start({ command: 'sleep 0.2; echo done' })
    await other.destroy()
    await expect(other.jobs.status(job)).rejects.toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await jobs.attach(job.jobId)).toEqual(job)
    expect(await jobs.wait(job)).toMatchObject({ exitCode: 0 })
    expect((await jobs.read(job)).raw).toBe('done\n')
  }))

it('list gives all jobs in the order of their starts, remove takes one away', () =>
  withJobs(async ({ jobs, root }) => {
    expect(await jobs.list()).toEqual([])
    const first = await jobs.start({ command: 'exit 1', jobId: 'z' })
    await jobs.wait(first)
    const second = await jobs.start({ command: ['sleep', '60'], jobId: 'a', processName: 'nap' })
    const list = await jobs.list()
    expect(list.map(({ jobId, command, processName }) => [jobId, command, processName])).toEqual([
      ['z', 'exit 1', undefined],
      ['a', 'sleep 60', 'nap'],
    ])
    expect(list.map(({ status }) => status.state)).toEqual(['exited', 'running'])
    expect(list[0]?.startTime).toBeInstanceOf(Date)
    await expect(jobs.remove(second)).rejects.toMatchObject({ code: 'JOB_RUNNING' })
    await jobs.remove(first)
    expect(existsSync(first.dir)).toBe(false)
    await jobs.cancel(second)
    await jobs.remove('a')
    expect(readdirSync(root)).toEqual([])
    for (const call of ['remove', 'status', 'read', 'cancel', 'wait'] as const)
      await expect(jobs[call]('a') as Promise<unknown>).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
    expect(await jobs.attach('a')).toBe(null)
  }))
