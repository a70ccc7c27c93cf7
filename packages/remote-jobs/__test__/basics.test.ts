/** Starting, reading, waiting in a remote sandbox: the same as with local jobs. */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { expect } from 'vitest'
import { everyShell, inEveryShell, isMain, itRemotely } from './places.js'

inEveryShell(
  'remote jobs',
  (shell) => {
    itRemotely(shell, 'a job runs, is read and ends with its code', async ({ jobs, root, again }) => {
      const job = await jobs.start({
        command: 'echo out; echo err >&2; pwd; exit 3',
        processName: 'a "name"',
      })
      expect(job).toMatchObject({ dir: path.join(root, job.jobId), processName: 'a "name"', cgroup: null })
      expect(job.outputFile).toBe(path.join(job.dir, 'output.log'))
      const status = await jobs.wait(job)
      expect(status).toMatchObject({ state: 'exited', exitCode: 3, reason: 'exit', alive: false })
      expect(status.endTime).toBeInstanceOf(Date)
      expect(await jobs.read(job)).toEqual({ raw: 'out\nerr\n/tmp\n', cursor: 13, bytesFetched: 13, status })
      expect(await again().attach(job.jobId)).toEqual(job)
      expect(readFileSync(job.exitFile, 'utf8').trim()).toBe('3')
      expect(statSync(job.dir).mode & 0o777).toBe(0o700)
    })

    itRemotely(
      shell,
      'a text is no option of the shell, and a script needs no #!',
      async ({ jobs, root }) => {
        for (const command of ['-x', '+x', '-c']) {
          const job = await jobs.start({ command })
          expect(await jobs.wait(job)).toMatchObject({ exitCode: 127 })
          expect((await jobs.read(job)).raw).toMatch(/[-+][xc]: (command )?not found/)
        }
        const cwd = path.dirname(root)
        writeFileSync(path.join(cwd, 'script'), 'echo "$0 $1"; exit 5', { mode: 0o755 })
        const job = await jobs.start({ command: ['./script', 'a b'], cwd })
        expect(await jobs.wait(job)).toMatchObject({ exitCode: 5 })
        expect((await jobs.read(job)).raw).toBe('./script a b\n')
      },
    )

    itRemotely(shell, 'an exit code above 128 is not mistaken for a signal', async ({ jobs }) => {
      const ends = await Promise.all(
        ['exit 143', 'kill -TERM $$', 'exit 137', 'kill -KILL $$', 'exit 130', 'exit 255'].map(
          async (command) => {
            const { exitCode, signal = null } = await jobs.wait(await jobs.start({ command }))
            return [exitCode, signal]
          },
        ),
      )
      // bash may collect its children too early for that: then the number is reported as an exit code.
      const either = (signal: string, code: number) =>
        shell.name === 'bash'
          ? [
              [null, signal],
              [code, null],
            ]
          : [[null, signal]]
      expect(either('SIGTERM', 143)).toContainEqual(ends[1])
      expect(either('SIGKILL', 137)).toContainEqual(ends[3])
      expect([ends[0], ends[2], ends[4], ends[5]]).toEqual([
        [143, null],
        [137, null],
        [130, null],
        [255, null],
      ])
    })
  },
  everyShell,
)

inEveryShell('many remote jobs', (shell) => {
  itRemotely(shell, 'commands, words, environment and input arrive byte for byte', async ({ again }) => {
    const every = Array.from({ length: 0x500 }, (_, index) => String.fromCodePoint(index + 1)).join('')
    const value = `${every}'"\\ \`$(echo no)\` 😀 \n\n`
    const jobs = again({ env: { A: 'backend', B: 'backend', HOME: undefined } })
    const output = async (options: Parameters<typeof jobs.start>[0]) => {
      const job = await jobs.start(options)
      await jobs.wait(job)
      return (await jobs.read(job)).raw
    }
    expect(await output({ command: 'printf "%s." "$VALUE"', env: { VALUE: value } })).toBe(`${value}.`)
    expect(await output({ command: ['printf', '%s|', value, '$HOME', '', '-n'] })).toBe(`${value}|$HOME||-n|`)
    expect(await output({ command: 'echo $A $B ${HOME-none}', env: { B: undefined } })).toBe('backend none\n')
    expect(await output({ command: "# 'quotes' \"and\" $(more)\ncat <<'X'\nit's 'é' \\ $x\nX\n\n" })).toBe(
      "it's 'é' \\ $x\n",
    )
    expect(await output({ command: 'cat', stdin: value })).toBe(value)
    expect(await output({ command: 'cat; echo end' })).toBe('end\n')
    expect(Number.parseInt(await output({ command: 'umask' }), 8)).toBe(process.umask())
    const long = 'x'.repeat(400_000)
    expect(await output({ command: `: ${long}\necho done`, stdin: new Uint8Array(200_000) })).toBe('done\n')
    expect(await output({ command: ['nacre-no-such-program'] })).toContain('nacre-no-such-program')
  })

  if (isMain(shell))
    itRemotely(
      shell,
      '20 concurrent starts all run, and of five with the same id one wins',
      async ({ jobs }) => {
        const started = await Promise.all(
          Array.from({ length: 20 }, (_, index) => jobs.start({ command: `echo ${index}; exit ${index}` })),
        )
        expect(new Set(started.map(({ jobId }) => jobId)).size).toBe(20)
        await Promise.all(
          started.map(async (job, index) => {
            expect(await jobs.wait(job)).toMatchObject({ exitCode: index })
            expect((await jobs.read(job)).raw).toBe(`${index}\n`)
          }),
        )
        const same = await Promise.allSettled(
          Array.from({ length: 5 }, () => jobs.start({ command: 'echo once', jobId: 'same' })),
        )
        expect(same.filter(({ status }) => status === 'fulfilled')).toHaveLength(1)
        for (const one of same)
          if (one.status === 'rejected') expect(one.reason).toMatchObject({ code: 'JOB_ALREADY_EXISTS' })
        expect(await jobs.wait('same')).toMatchObject({ exitCode: 0 })
        expect(await jobs.list()).toHaveLength(21)
      },
    )

  itRemotely(
    shell,
    'list gives all in the order of their starts, remove takes one away',
    async ({ jobs }) => {
      expect(await jobs.list()).toEqual([])
      const first = await jobs.start({ command: 'exit 1', jobId: '.first' })
      await jobs.wait(first)
      const second = await jobs.start({ command: ['sleep', '600'], processName: 'nap' })
      const list = await jobs.list()
      expect(list.map(({ jobId, command, processName }) => [jobId, command, processName])).toEqual([
        ['.first', 'exit 1', undefined],
        [second.jobId, 'sleep 600', 'nap'],
      ])
      expect(list.map(({ status }) => [status.state, status.alive])).toEqual([
        ['exited', false],
        ['running', true],
      ])
      await expect(jobs.remove(second)).rejects.toMatchObject({ code: 'JOB_RUNNING' })
      await jobs.remove(first)
      for (const verb of ['remove', 'status', 'read', 'cancel', 'wait'] as const)
        await expect(jobs[verb](first) as Promise<unknown>).rejects.toMatchObject({ code: 'JOB_NOT_FOUND' })
      expect(await jobs.attach('.first')).toBe(null)
    },
  )
})
