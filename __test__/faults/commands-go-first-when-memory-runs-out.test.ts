/** When memory runs out, the kernel ends commands before the shell, and the shell before host and supervisor. */
import { mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { startHost } from '../helpers/host.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import { asOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import { until } from '../helpers/until.js'

const scoreOf = (pid: number | 'self') => Number(readFileSync(`/proc/${pid}/oom_score_adj`, 'utf8'))

/** The score of a shell of this program. */
function shellScore(): number {
  const own = scoreOf('self')
  return own + Math.trunc(((1000 - own) * 9) / 10)
}

describe.each([...modes, ...plain])('the order of the processes, $name', (mode) => {
  it('is that of what can be lost first', () =>
    withSandboxIn(mode, async ({ sandbox }) => {
      const own = scoreOf('self')
      const shown = 'cat /proc/self/oom_score_adj'
      const { stdout } = await sandbox.exec(`
        echo $$ $PPID; ${shown}; (${shown}; :); echo $(${shown}); { ${shown}; } & wait; true | ${shown}
      `)
      const [pids = '', ...values] = stdout.trim().split('\n')
      const [shell = 0, supervisor = 0] = pids.split(' ').map(Number)
      expect(values).toEqual(['1000', '1000', '1000', '1000', '1000'])
      expect(scoreOf(supervisor)).toBe(own)
      const terminal = await sandbox.startProcess(shown, { pty: { cols: 80, rows: 24 } })
      const plainly = await sandbox.startProcess(`${shown}; echo $(< /proc/self/oom_score_adj)`)
      for (const started of [terminal, plainly]) await started.waitForExit()
      expect((await terminal.getLogs()).stdout.trim()).toBe('1000')
      expect((await plainly.getLogs()).stdout).toBe('1000\n1000\n')
      const { jobId } = await sandbox.jobs.start({ command: shown })
      await sandbox.jobs.wait(jobId)
      expect((await sandbox.jobs.read(jobId)).raw).toBe('1000\n')
      await sandbox.jobs.remove(jobId)
      if (mode.name.startsWith('plain') || process.env.NACRE_ENGINE === 'plain') return
      expect(scoreOf(shell)).toBe(shellScore())
      // Its standby has the rank of the shell that it becomes.
      await sandbox.exec('kill -9 $$')
      const next = Number((await sandbox.exec('echo $$')).stdout)
      expect([next === shell, scoreOf(next)]).toEqual([false, shellScore()])
      expect((await sandbox.exec(shown)).stdout).toBe('1000\n')
    }))
})

/** Not even its owner may open this file of a shell, whose memory no other program may read. */
it.skipIf(obstacle !== undefined)(
  'the order is the same for an ordinary user, also after the shell was killed',
  async () => {
    const program = `
    const sandbox = new Sandbox({ cwd: '/tmp' })
    const shown = 'cat /proc/self/oom_score_adj'
    const text = 'for pid in $PPID $$; do cat /proc/$pid/oom_score_adj; done; (' + shown + '; :); ' + shown + ' & wait'
    const main = async () => {
      const first = (await sandbox.exec(text)).stdout
      await sandbox.exec('kill -9 $$')
      const second = (await sandbox.exec(text)).stdout
      const process = await sandbox.startProcess(shown)
      await process.waitForExit()
      const third = (await process.getLogs()).stdout
      await sandbox.destroy()
      print('= ' + [first, second, third].join('').trim().split('\\n').join(' '))
    }
    main()
  `
    const host = startHost(program, asOrdinaryUser)
    expect(await host.ended()).toBe(0)
    const [own, shell] = [scoreOf('self'), process.env.NACRE_ENGINE === 'plain' ? 1000 : shellScore()]
    expect(host.output()).toContain(`= ${own} ${shell} 1000 1000 ${own} ${shell} 1000 1000 1000\n`)
  },
)

it.skipIf(process.geteuid?.() !== 0)('what a command has changed is inherited as in any bash', async () => {
  for (const mode of modes) {
    await withSandboxIn(mode, async ({ sandbox }) => {
      const shown = 'cat /proc/self/oom_score_adj /proc/$$/oom_score_adj'
      const { stdout } = await sandbox.exec(`echo 950 > /proc/$$/oom_score_adj; ${shown}`)
      expect(stdout).toBe('950\n950\n')
      if (process.env.NACRE_ENGINE !== 'plain') expect((await sandbox.exec(shown)).stdout).toBe(stdout)
    })
  }
})

/** A memory control group with this limit; undefined where this user can make none. */
function memoryGroup(bytes: number): string | undefined {
  const groups = readFileSync('/proc/self/cgroup', 'utf8')
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  const first = /^\d+:([^:]*,)?memory(,[^:]*)?:(.*)$/m.exec(groups)?.[3]
  const second = /^0::(.*)$/m.exec(groups)?.[1]
  const wanted = first === undefined ? ' - cgroup2 ' : / - cgroup .*[ ,]memory(,|$)/
  const mount = mounts.find((line) => line.search(wanted) >= 0)?.split(' ')[4]
  if (mount === undefined) return undefined
  const directory = path.join(mount, first ?? second ?? '/', `nacre-memory-test-${process.pid}`)
  const limits = first === undefined ? ['memory.max', 'memory.swap.max'] : ['memory.limit_in_bytes']
  try {
    mkdirSync(directory)
  } catch {
    return undefined
  }
  const remove = () => {
    try {
      rmdirSync(directory)
      return true
    } catch {
      return undefined
    }
  }
  onTestFinished(async () => void (await until(remove, () => `${directory} is not empty`)))
  try {
    for (const [index, name] of limits.entries())
      writeFileSync(path.join(directory, name), index === 0 ? `${bytes}` : '0')
  } catch {
    return undefined
  }
  return directory
}

it('in 400 MB, a host of 200 MB and its shells outlive eight commands that allocate', async () => {
  const group = memoryGroup(400 << 20)
  if (group === undefined) return
  const program = `
    const held = Buffer.alloc(200 << 20, 1)
    const sandbox = new Sandbox({ cwd: '/tmp' })
    const run = async (_, index) => {
      const session = await sandbox.createSession({ id: 's' + index })
      await session.exec('kept=' + index)
      const { exitCode, sessionRestarted } = await session.exec('tail /dev/zero; x=$?; exit $x')
      const { stdout } = await session.exec('echo $kept')
      return [exitCode, sessionRestarted, stdout.trim()].join()
    }
    Promise.all(Array.from({ length: 8 }, run)).then(async (results) => {
      await sandbox.destroy()
      print('results=' + results.join(' ') + ' held=' + held.length)
    })
  `
  const host = startHost(program, ['sh', '-c', `echo $$ > ${group}/cgroup.procs && exec "$@"`, 'sh'])
  expect(await host.ended(60_000)).toBe(0)
  expect(host.output()).toContain(
    `results=${Array.from({ length: 8 }, (_, index) => `137,false,${index}`).join(' ')} held=`,
  )
})
