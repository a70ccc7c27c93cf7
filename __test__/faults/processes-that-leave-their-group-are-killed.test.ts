/** Processes that move themselves out of the control group of their command, or into one that they make below it. */
import { chownSync, mkdirSync, readdirSync } from 'node:fs'
import path from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { startHost } from '../helpers/host.js'
import { withSandbox } from '../helpers/invariants.js'
import { asOrdinaryUser, obstacle, ordinaryUser } from '../helpers/ordinary-user.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

/** A foreign control group, which is removed after the test; undefined where this user can make none. */
function foreignGroup(): string | undefined {
  const own = proc.groupOf('self')
  if (own === undefined) return undefined
  groups++
  const directory = path.join(own, `foreign-${process.pid}-${groups}`)
  try {
    mkdirSync(directory)
  } catch {
    return undefined
  }
  // The supervisor of a host that has ended may still be ending.
  const isRemoved = () => {
    try {
      proc.removeGroup(directory)
      return true
    } catch {
      return undefined
    }
  }
  onTestFinished(async () => void (await until(isRemoved, () => `${directory} is left`)))
  return directory
}

let groups = 0

/** Makes a group below that of the command. */
const below =
  'group=$(findmnt -nt cgroup2 -o TARGET | head -1)$(sed -n s/^0:://p /proc/self/cgroup)/below; mkdir $group'

/** Commands that run `nap` outside of the group of the command, in `away` or in a new group below its own. */
const forms: Record<string, (nap: string, away: string) => string> = {
  'a program': (nap, away) => `bash -c 'echo $BASHPID > ${away}/cgroup.procs; exec ${nap}'`,
  'a subshell with a program': (nap, away) => `(echo $BASHPID > ${away}/cgroup.procs; ${nap}; :)`,
  'a job': (nap, away) => `{ echo $BASHPID > ${away}/cgroup.procs; ${nap}; } & wait`,
  'a part of a pipeline': (nap, away) => `sleep 600 | { echo $BASHPID > ${away}/cgroup.procs; ${nap}; }`,
  'a session of its own': (nap, away) =>
    `setsid bash -c 'echo $BASHPID > ${away}/cgroup.procs; ${nap}; :' & wait`,
  'a daemon': (nap, away) => `(echo $BASHPID > ${away}/cgroup.procs; setsid -f ${nap}); sleep 600`,
  'a program that ignores SIGTERM': (nap, away) =>
    `bash -c 'trap "" TERM; echo $BASHPID > ${away}/cgroup.procs; ${nap}; :'`,
  'the shell itself': (nap, away) => `echo $$ > ${away}/cgroup.procs; ${nap}`,
  'a group below its own': (nap) => `${below}; (echo $BASHPID > $group/cgroup.procs; ${nap}; :)`,
  'a daemon in a group below its own': (nap) =>
    `${below}; (echo $BASHPID > $group/cgroup.procs; setsid -f ${nap}); sleep 600`,
  'a threaded group below its own': (nap) =>
    `${below}; echo threaded > $group/cgroup.type; (echo $BASHPID > $group/cgroup.threads; exec setsid -f ${nap}); sleep 600`,
  'a group beside a threaded one': (nap) =>
    `${below}; mkdir $group-2; echo threaded > $group/cgroup.type; (echo $BASHPID > $group/cgroup.procs; ${nap}; :)`,
  'a group below one below its own': (nap) =>
    `${below}; mkdir $group/inner; (echo $BASHPID > $group/inner/cgroup.procs; ${nap}; :)`,
}

/** Without control groups for the session, `below` would be a group of the host. */
const hasGroups = process.env.NACRE_CONTAINMENT !== 'subreaper'

for (const [name, form] of Object.entries(forms).filter(
  ([, form]) => hasGroups || !form('', '').includes(below),
)) {
  it(`a timeout, an abort, a kill and the end of a session end ${name}`, () =>
    withSandbox(async ({ sandbox }) => {
      const away = foreignGroup()
      if (away === undefined) return
      const options = { forceKillAfterDelay: 300 }
      const nap = proc.uniqueSleep()
      const start = async (by: string) => {
        const session = await sandbox.createSession({ id: by })
        return { session, text: form(nap, away) }
      }
      {
        const { session, text } = await start('timeout')
        const error = await rejectionOf(session.exec(text, { ...options, timeout: 400 }))
        expect(error).toMatchObject({ code: 'COMMAND_TIMEOUT' })
        expect(proc.runs(nap)).toBe(false)
        expect((await session.exec('echo ok')).stdout).toBe('ok\n')
      }
      {
        const { session, text } = await start('abort')
        const controller = new AbortController()
        const running = rejectionOf(session.exec(text, { ...options, signal: controller.signal }))
        await proc.untilRuns(nap)
        controller.abort()
        await running
        expect(proc.runs(nap)).toBe(false)
      }
      if (name !== 'a daemon') {
        const { session, text } = await start('process')
        const process = await session.startProcess(text, options)
        await proc.untilRuns(nap)
        await process.kill()
        expect(proc.runs(nap)).toBe(false)
      }
      {
        const { session, text } = await start('end')
        const running = session.exec(text).catch(() => {})
        await proc.untilRuns(nap)
        await sandbox.deleteSession('end')
        expect(proc.runs(nap)).toBe(false)
        await running
      }
    }))
}

it('a kill spares what earlier commands and processes have moved to the same group', () =>
  withSandbox(
    async ({ sandbox }) => {
      const away = foreignGroup()
      if (away === undefined) return
      const [earlier, orphan, process, nap] = [1, 2, 3, 4].map(() => proc.uniqueSleep()) as [
        string,
        string,
        string,
        string,
      ]
      const moved = `echo $BASHPID > ${away}/cgroup.procs`
      await sandbox.exec(`(${moved}; exec ${earlier}) > /dev/null 2>&1 &`)
      await sandbox.exec(`(${moved}; exec setsid -f ${orphan}) > /dev/null 2>&1`)
      await sandbox.startProcess(`${moved}; setsid -f ${process}; sleep 600`)
      for (const older of [earlier, orphan, process]) await proc.untilRuns(older)
      await rejectionOf(sandbox.exec(`(${moved}; ${nap}; :)`, { timeout: 300 }))
      expect([earlier, orphan, process, nap].map(proc.runs)).toEqual([true, true, true, false])
      await sandbox.destroy()
      expect([earlier, orphan, process].map(proc.runs)).toEqual([false, false, false])
    },
    { destroys: true },
  ))

/** What takes the rights to its groups away from their owner. */
const closings = {
  'a group below its own': `${below}; (echo $BASHPID > $group/cgroup.procs; exec setsid -f NAP); chmod 0 $group`,
  'its own group': `${below}; setsid -f NAP; chmod 0 $group/.. $group/../cgroup.procs $group/../cgroup.kill`,
  'all groups of the session': `${below}; setsid -f NAP; chmod 0 $group/../cgroup.procs $group/../.. `,
}

/**
 * Runs a program of an ordinary user in a group that belongs to this user, where that is possible. It prints this, and leaves no
 * group behind.
 */
async function runInOwnGroup(program: string, output: RegExp): Promise<void> {
  const away = hasGroups && obstacle === undefined && ordinaryUser !== undefined ? foreignGroup() : undefined
  if (away === undefined || ordinaryUser === undefined) return
  mkdirSync(path.join(away, 'host'))
  for (const directory of [away, path.join(away, 'host')])
    for (const name of ['.', 'cgroup.procs', 'cgroup.threads', 'cgroup.subtree_control'])
      chownSync(path.join(directory, name), ordinaryUser, ordinaryUser)
  const enter = ['bash', '-c', `echo $$ > ${away}/host/cgroup.procs; exec "$@"`, 'bash']
  const host = startHost(program, [...enter, ...asOrdinaryUser])
  expect(await host.ended(), host.output()).toBe(0)
  expect(host.output()).toMatch(output)
  const left = [away, path.join(away, 'host')].flatMap((directory) => readdirSync(directory))
  expect(left.filter((name) => name.startsWith('nacre'))).toEqual([])
}

it.each(Object.entries(closings))('a command that closes %s is killed', async (_, close) => {
  const nap = proc.uniqueSleep()
  const text = `${close.replace('NAP', nap)}; trap '' TERM; sleep 600`
  const program = `
    const sandbox = new Sandbox({ cwd: '/', forceKillAfterDelay: 100 })
    const main = async () => {
      print((await sandbox.capabilities()).cgroup)
      const { code } = await sandbox.exec(${JSON.stringify(text)}, { timeout: 400 }).catch((error) => error)
      print(code + ' ' + (await sandbox.exec(${JSON.stringify(`pgrep -x -f '${nap}' || echo none`)})).stdout)
      const process = await sandbox.startProcess(${JSON.stringify(text)})
      while ((await sandbox.exec(${JSON.stringify(`pgrep -x -f '${nap}'`)})).exitCode !== 0);
      await process.kill()
      await sandbox.destroy()
      print('destroyed')
    }
    main()
  `
  await runInOwnGroup(program, /^v2\nCOMMAND_TIMEOUT none\n\ndestroyed\n$/)
  expect(proc.runs(nap)).toBe(false)
})

/** The groups of a command, of its session and of its host, and rights for them that are not enough. */
const rights = {
  'the group of a session': 'chmod 500 $group/..',
  'the list of a session': 'chmod 400 $group/../cgroup.procs',
  'the list of a command': 'chmod 400 $group/cgroup.procs',
  'the list of the host': 'chmod 400 $group/../../cgroup.procs',
  'the group of the host': 'chmod 500 $group/../..',
  everything: 'chmod 0 $group/*.* $group $group/../*.* $group/.. $group/../../cgroup.procs $group/../..',
}

it.each(Object.entries(rights))('a session goes on after a command has closed %s', async (_, close) => {
  const [job, nap] = [proc.uniqueSleep(), proc.uniqueSleep()]
  const shut = `${below.replace(/\/below.*/, '')}; ${close}; true`
  const program = `
    const sandbox = new Sandbox({ cwd: '/', forceKillAfterDelay: 100 })
    const main = async () => {
      await sandbox.exec(${JSON.stringify(`${job} > /dev/null 2>&1 & ${shut}`)})
      const { code } = await sandbox.exec(${JSON.stringify(`${shut}; sleep 600`)}, { timeout: 200 }).catch((error) => error)
      print(code + ' ' + (await sandbox.exec(${JSON.stringify(`pgrep -c -x -f '${job}'; ${shut}`)})).stdout)
      const process = await sandbox.startProcess(${JSON.stringify(`setsid -f ${nap} > /dev/null 2>&1; sleep 600`)})
      print((await sandbox.exec('sed -n s/^0:://p /proc/' + process.pid + '/cgroup')).stdout)
      await sandbox.exec('kill -9 $$').catch(() => {})
      await sandbox.exec(${JSON.stringify(shut)})
      const running = sandbox.exec('sleep 600')
      running.catch(() => {})
      await process.kill()
      print((await (await sandbox.createSession()).exec(${JSON.stringify(`pgrep -c -x -f '${nap}'; ${shut}`)})).stdout)
      await sandbox.destroy()
      print('destroyed')
    }
    main()
  `
  await runInOwnGroup(program, /^COMMAND_TIMEOUT 1\n\n\/.*\/nacre-[^/]+\/[bp]-\d+\n\n0\n\ndestroyed\n$/)
  expect([job, nap].map(proc.runs)).toEqual([false, false])
})

it('groups that a command leaves behind are removed with its session, and while it runs on they stay', () =>
  withSandbox(async ({ sandbox }) => {
    if (!hasGroups || foreignGroup() === undefined) return
    const nap = proc.uniqueSleep()
    await sandbox.exec(
      `${below}; mkdir $group/inner; (echo $BASHPID > $group/cgroup.procs; exec ${nap}) > /dev/null 2>&1 & job=$!`,
    )
    await proc.untilRuns(nap)
    const group = (await sandbox.exec('echo $group')).stdout.trim()
    // These commands are not in its way, and neither are their kills.
    await rejectionOf(sandbox.exec('sleep 600', { timeout: 100 }))
    expect([proc.runs(nap), proc.entries(group).includes('inner')]).toEqual([true, true])
    await sandbox.exec('kill $job')
    await until(
      async () => {
        await sandbox.exec('/bin/true')
        return proc.entries(group).length === 0 || undefined
      },
      () => `${group} is left`,
    )
  }))
