/** Processes that have left their session and their parents, when the supervisor that would find them was killed. */
import { spawn } from 'node:child_process'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it, onTestFinished } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { itInEveryMode, modes } from '../helpers/modes.js'
import { asOrdinaryUser, giveToOrdinaryUser, obstacle } from '../helpers/ordinary-user.js'
import * as proc from '../helpers/proc.js'
import { holds, until } from '../helpers/until.js'

/** Runs a program as another user, if the command is root's. */
const changed = '$( ((EUID)) || echo setpriv --reuid=65534 --regid=65534 --clear-groups)'

/** Without output of the session, like real daemons. */
const forms = (nap: string) => [
  `setsid -f ${nap}`,
  `(setsid ${nap} &)`,
  `setsid bash -c '(${nap} &)' &`,
  `nohup setsid sh -c '${nap} & exit' &`,
  `setsid sh -c 'trap "" TERM HUP INT; while :; do ${nap}; done' &`,
  `perl -e 'use POSIX; fork && exit; POSIX::setsid; fork && exit; close $_ for 0..20; exec @ARGV' ${nap}`,
  `env -i "$(type -P setsid)" -f ${nap}`,
  `setsid -f ${changed} ${nap}`,
]

const DAEMONS = forms('').length

const daemons = (nap: string) =>
  forms(nap)
    .map((daemon) => `{ ${daemon.replace(/&$/, '& :')}; } > /dev/null 2>&1 < /dev/null`)
    .join('\n')

for (const [what, leave] of Object.entries({
  destroy: ({ sandbox }: { sandbox: Sandbox }) => sandbox.destroy(),
  // The shell that dies with its supervisor may still take a command.
  'the next command': async ({ sandbox }: { sandbox: Sandbox }, killed: string) => {
    await until(
      async () => {
        const { stdout } = await sandbox.exec('echo $PPID').catch(() => ({ stdout: killed }))
        return stdout !== killed || undefined
      },
      () => 'the session does not work',
    )
  },
})) {
  itInEveryMode(
    `what commands and processes have daemonized ends with their killed supervisor, at ${what}`,
    async ({ sandbox, stateDir }) => {
      const [nap, started, other] = [proc.uniqueSleep(), proc.uniqueSleep(), proc.uniqueSleep()]
      // They are of other sessions, and of another sandbox with the same directory.
      const neighbour = new Sandbox({ stateDir })
      try {
        await neighbour.exec(daemons(other))
        const session = await sandbox.createSession({ id: 'other' })
        await session.exec(daemons(other))
        await sandbox.exec(daemons(nap))
        await sandbox.startProcess(daemons(started))
        await Promise.all([proc.untilRuns(nap, DAEMONS), proc.untilRuns(started, DAEMONS)])
        await proc.untilRuns(other, 2 * DAEMONS)
        const { stdout } = await sandbox.exec('echo $PPID')
        proc.kill(Number(stdout))
        await leave({ sandbox }, stdout)
        expect([nap, started].filter(proc.runs)).toEqual([])
        await proc.untilRuns(other, what === 'destroy' ? DAEMONS : 2 * DAEMONS)
      } finally {
        await neighbour.destroy()
      }
    },
    { destroys: true },
  )
}

describe.each([
  ...modes.map((mode) => ({ ...mode, wrapper: [] as string[], isTested: true })),
  { name: 'as an ordinary user', env: {}, wrapper: asOrdinaryUser, isTested: obstacle === undefined },
])('$name', ({ env, wrapper, isTested }) => {
  const start = (state: string, body: string) =>
    startHost(
      `const sandbox = new Sandbox({ cwd: '/', stateDir: ${JSON.stringify(state)} }); (async () => { ${body} })()`,
      wrapper,
      env,
    )

  /** Starts daemons in a program of its own. */
  async function withDaemons(state: string, nap: string) {
    const host = start(
      state,
      `setInterval(() => {}, 1000); print((await sandbox.exec(${JSON.stringify(`${daemons(nap)}\necho supervisor=$PPID.`)})).stdout)`,
    )
    await host.printed('supervisor=')
    await proc.untilRuns(nap, DAEMONS)
    return { host, supervisor: Number(/supervisor=(\d+)\./.exec(host.output())?.[1]) }
  }

  /**
   * Kills a program, its supervisor and the standby, if there is one, at the same moment: while the program is stopped, it
   * cannot clean up.
   */
  async function killAll({ host, supervisor }: Awaited<ReturnType<typeof withDaemons>>) {
    proc.signal(host.pid, 'SIGSTOP')
    await proc.untilStopped(host.pid)
    // The supervisor stops first, and the shell has no other standby then.
    proc.signal(supervisor, 'SIGSTOP')
    await proc.untilStopped(supervisor)
    for (const pid of [...named(supervisor, 'nacre-standby'), supervisor, host.pid]) proc.kill(pid)
    await host.ended()
  }

  /** A program has its text in its command line. */
  const untilGone = (nap: string, program?: number) =>
    until(
      () => {
        const left = proc.listProcesses().filter(({ pid, state }) => pid !== program && state !== 'Z')
        return !left.some(({ pid }) => proc.commandLine(pid).includes(nap)) || undefined
      },
      () => `${nap} is left`,
    )

  it.skipIf(!isTested)(
    'a later program with the same stateDir removes the control groups that a dead one and its supervisor have left',
    async () => {
      const [stateDir, another, nap] = [directory(), directory(), proc.uniqueSleep()]
      const run = async (state: string) => {
        const next = start(state, `await sandbox.exec('true'); await sandbox.destroy(); print('ended')`)
        expect(await next.ended()).toBe(0)
      }
      // A process without the mark is found by its group.
      for (const leave of ['', `ulimit -x 1000; setsid -f ${nap} > /dev/null 2>&1;`]) {
        const body = `
          setInterval(() => {}, 1000)
          const { cgroup } = await sandbox.capabilities()
          const leave = cgroup === 'v2' ? ${JSON.stringify(leave)} : ''
          print(cgroup + ' supervisor=' + (await sandbox.exec(leave + ' echo $PPID')).stdout + '.')
        `
        const host = start(stateDir, body)
        await host.printed('\n.')
        const [, cgroup, supervisor] = /(\w+) supervisor=(\d+)/.exec(host.output()) ?? []
        const leaves = cgroup === 'v2' && leave !== ''
        if (leaves) await proc.untilRuns(nap)
        await holds(() => readdirSync(stateDir).some((name) => /^program-\w+$/.test(name)))
        await killAll({ host, supervisor: Number(supervisor) })
        const left = proc.ownGroups(host.pid)
        expect(left.length > 0).toBe(cgroup === 'v2')
        // It does not know that the program is dead.
        await run(another)
        expect(proc.runs(nap)).toBe(leaves)
        await run(stateDir)
        expect([left.filter((group) => existsSync(group)), proc.runs(nap)]).toEqual([[], false])
      }
    },
  )

  it.skipIf(!isTested).each([{}, { isolation: { processes: 'own' } }])(
    'what is in a control group ends with a program and its supervisor, and no group is left, with %j',
    async (options) => {
      const nap = proc.uniqueSleep()
      const host = startHost(
        `
          const sandbox = new Sandbox(${JSON.stringify({ cwd: directory(), stateDir: directory(), ...options })})
          setInterval(() => {}, 1000)
          const main = async () => {
            const { cgroup, engine } = await sandbox.capabilities()
            if (cgroup !== 'v2' || engine !== 'builtin') return print('nothing to test.')
            await sandbox.exec('setsid -f ${nap} > /dev/null 2>&1; ulimit -x 1000; env -i ${nap} > /dev/null 2>&1 &')
            print('started.')
          }
          main().catch((error) => print(error.code + '.'))
        `,
        wrapper,
        env,
      )
      await host.printed('.\n')
      if (!host.output().startsWith('started'))
        return expect(host.output()).toMatch(/^(nothing|ISOLATION_UNSUPPORTED)/)
      await proc.untilRuns(nap, 2)
      const [supervisor = 0] = named(host.pid, 'nacre-supervisor')
      await holds(() => named(supervisor, 'nacre-standby').length > 0)
      const left = proc.ownGroups(host.pid)
      expect(left).toHaveLength(1)
      proc.signal(host.pid, 'SIGSTOP')
      await proc.untilStopped(host.pid)
      proc.kill(supervisor)
      proc.kill(host.pid)
      await host.ended()
      await holds(() => !left.some((group) => existsSync(group)))
      await untilGone(nap)
      await expectGone(host.tag)
    },
  )

  it.skipIf(!isTested)('what a command has daemonized ends with its killed supervisor', async () => {
    const nap = proc.uniqueSleep()
    const { host, supervisor } = await withDaemons(directory(), nap)
    proc.kill(supervisor)
    await untilGone(nap, host.pid)
    proc.kill(host.pid)
    await host.ended()
  })

  it.skipIf(!isTested)(
    'a later program with the same stateDir ends what a dead one and its supervisor have left',
    async () => {
      const [stateDir, another] = [directory(), directory()]
      const [nap, other, mine] = [proc.uniqueSleep(), proc.uniqueSleep(), proc.uniqueSleep()]
      const living = await withDaemons(another, other)
      await killAll(await withDaemons(stateDir, nap))
      await proc.untilRuns(nap, DAEMONS)
      // Limits that are no mark of the dead program are left alone.
      const mark = markOf(nap)
      for (const limit of [1000n, mark & 0x3fffffn, mark ^ (1n << 22n), mark ^ (1n << 60n), mark << 1n]) {
        const child = spawn('bash', ['-c', `ulimit -S -x ${limit} && exec ${mine}`])
        onTestFinished(() => void child.kill('SIGKILL'))
      }
      await proc.untilRuns(mine, 5)
      const next = start(stateDir, `await sandbox.exec('true'); await sandbox.destroy(); print('ended')`)
      expect(await next.ended()).toBe(0)
      expect([proc.runs(nap), readdirSync(stateDir)]).toEqual([false, []])
      // These belong to a program that lives, in another directory.
      await proc.untilRuns(other, DAEMONS)
      const beside = start(another, `await sandbox.exec('true'); await sandbox.destroy(); print('ended')`)
      expect(await beside.ended()).toBe(0)
      await proc.untilRuns(other, DAEMONS)
      await killAll(living)
      const last = start(another, `await sandbox.exec('true'); await sandbox.destroy(); print('ended')`)
      expect(await last.ended()).toBe(0)
      await untilGone(other)
      await proc.untilRuns(mine, 5)
    },
  )

  function directory(): string {
    const made = mkdtempSync(path.join(os.tmpdir(), 'nacre-leftovers-'))
    onTestFinished(() => rmSync(made, { recursive: true, force: true }))
    if (wrapper.length > 0) giveToOrdinaryUser(made)
    return made
  }
})

itInEveryMode('the mark is neither part of the state of a session nor of its forks', async ({ sandbox }) => {
  const mark = async (place: Pick<Sandbox, 'exec'>) => (await place.exec('ulimit -x; ulimit -H -x')).stdout
  const hard = readFileSync('/proc/self/limits', 'utf8').match(/^Max file locks +\S+ +(\S+)/m)?.[1]
  const first = await mark(sandbox)
  expect(first).toMatch(new RegExp(`^\\d{19}\n${hard}\n$`))
  await sandbox.exec('kept=1')
  const { stdout } = await sandbox.exec('echo $PPID')
  proc.kill(Number(stdout))
  // The shell that dies with its supervisor may still take a command.
  const second = await until(
    async () => {
      const found = await mark(sandbox).catch(() => first)
      return found === first ? undefined : found
    },
    () => 'the session does not work, or has the mark of an ended supervisor',
  )
  expect((await sandbox.exec('echo $kept')).stdout).toBe('1\n')
  expect(second).toMatch(/^\d{19}\n/)
  const other = await sandbox.createSession()
  expect(await mark(other)).not.toBe(second)
})

it('where the hard limit is smaller than a mark, sessions work without one', async () => {
  const program = `
    const sandbox = new Sandbox({ cwd: '/' })
    const main = async () => { print('limit=' + (await sandbox.exec('ulimit -x')).stdout); await sandbox.destroy() }
    main()
  `
  const host = startHost(program, ['bash', '-c', 'ulimit -x 1000 && exec "$@"', 'bash'])
  expect(await host.ended()).toBe(0)
  expect(host.output()).toContain('limit=1000\n')
})

/** The children of a process with this name. */
const named = (parent: number, name: string) =>
  proc.children(parent).filter((pid) => proc.commandLine(pid) === name)

/** The mark of a process that runs. */
function markOf(words: string): bigint {
  const entry = proc.listProcesses().find(({ pid }) => proc.commandLine(pid) === words)
  const limit =
    entry && /^Max file locks +(\d+)/m.exec(readFileSync(`/proc/${entry.pid}/limits`, 'utf8'))?.[1]
  if (limit === undefined) throw new Error(`${words} has no mark`)
  return BigInt(limit)
}
