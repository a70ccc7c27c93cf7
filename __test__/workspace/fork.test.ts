/** Forks: sandboxes that begin with the files and the shells of another one. */
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { serve } from '@nacre/server'
import { Sandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
import { copyOnWrite, hasGroups, inWorkspaceOver } from '../helpers/in-workspace.js'
import { withSandbox } from '../helpers/invariants.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const inWorkspace = inWorkspaceOver(({ directory }) => writeFileSync(path.join(directory, 'a'), 'a\n'))

/** Forks a sandbox, and destroys the forks after the test. */
async function withForks(
  sandbox: Sandbox,
  count: number,
  test: (forks: Sandbox[]) => Promise<void>,
): Promise<void> {
  const forks = (await sandbox.fork(count)) as Sandbox[]
  try {
    await test(forks)
  } finally {
    await Promise.all(forks.map((fork) => fork.destroy()))
  }
}

const output = async (sandbox: Pick<Sandbox, 'exec'> | null, command: string) =>
  (await sandbox?.exec(command))?.stdout

const listed = async (sandbox: Sandbox) =>
  (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)

const STATE = `echo "$value \${list[*]} $?"; f; pwd; shopt -q extglob && echo extglob; trap -p USR1; cat ../a; ls`
const STATE_IN_FORK = (directory: string) =>
  `a b 1 2 7\nf a b\n${directory}/sub\nextglob\ntrap -- 'echo usr1' SIGUSR1\nchanged\nfile\n`

describe('a fork', () => {
  for (const mode of [...modes, ...plain])
    it(`has the files and the shells of every session, and is independent, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async ({ sandbox, directory }) => {
          writeFileSync(path.join(directory, 'a'), 'a\n')
          const other = await sandbox.createSession({ id: 'other', env: { GIVEN: 'yes' } })
          await other.exec('own=1; cd /tmp')
          await sandbox.exec(
            `echo changed > a; mkdir sub; cd sub; echo > file; shopt -s extglob; trap 'echo usr1' USR1
            value='a b'; list=(1 2); f() { echo "f $value"; }; (exit 7)`,
          )
          await withForks(sandbox, 2, async ([first, second]) => {
            if (first === undefined || second === undefined) throw new Error('there are no forks')
            // The exit code is that of the last command.
            for (const fork of [first, second, sandbox])
              expect(await output(fork, STATE)).toBe(STATE_IN_FORK(directory))
            for (const fork of [first, second]) {
              expect(fork).toBeInstanceOf(Sandbox)
              expect((await fork.listSessions()).map(({ id }) => id)).toEqual(['default', 'other'])
              expect(await output(await fork.getSession('other'), 'echo $own $GIVEN; pwd')).toBe(
                '1 yes\n/tmp\n',
              )
              expect((await (await fork.getSession('other'))?.history())?.[0]?.command).toBe('own=1; cd /tmp')
            }
            await first.exec('value=first; cd ..; echo first > a; rm -r sub; echo > b')
            await sandbox.exec('value=parent; echo parent > ../a')
            await first.deleteSession('other')
            await second.createSession({ id: 'more' })
            expect(await output(second, STATE)).toBe(STATE_IN_FORK(directory).replace(' 7', ' 0'))
            expect(await output(first, 'echo $value; cat a; ls; pwd')).toBe(
              `first\nfirst\na\nb\n${directory}\n`,
            )
            expect(await output(sandbox, 'echo $value; cat ../a; ls')).toBe('parent\nparent\nfile\n')
            expect((await sandbox.listSessions()).length).toBe(2)
            expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('a\n')
            await withForks(first, 1, async ([child]) => {
              expect(await output(child ?? null, 'echo $value; cat a; f; ls')).toBe(
                'first\nfirst\nf first\na\nb\n',
              )
              await first.destroy()
              expect(await output(child ?? null, 'cat a; echo on > c; cat c')).toBe('first\non\n')
            })
          })
        },
        { options: copyOnWrite },
      ))

  it(
    'is a whole sandbox: it has checkpoints, changes, processes and files',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo one > a; x=1')
      const one = await sandbox.checkpoint({ name: 'one' })
      await sandbox.exec('echo two > a; x=2; echo new > new')
      await withForks(sandbox, 1, async ([fork]) => {
        if (fork === undefined) throw new Error('there is no fork')
        expect(await fork.checkpoints()).toEqual([one])
        expect(await fork.workspace.info()).toEqual({ path: directory, id: null })
        expect(await listed(fork)).toEqual(['modified a', 'created new'])
        await sandbox.deleteCheckpoint(one)
        const two = await fork.checkpoint()
        await fork.rollback(one)
        expect(await output(fork, 'cat a; echo $x; ls')).toBe('one\n1\na\n')
        await fork.rollback(two)
        expect(await output(fork, 'cat a; echo $x; ls')).toBe('two\n2\na\nnew\n')
        const service = await fork.startProcess('cat new; echo more > more')
        await service.waitForExit()
        expect(String(await fork.files.read('more'))).toBe('more\n')
        expect(new TextDecoder().decode(await fork.workspace.diff())).toContain('+++ b/more')
        await fork.workspace.discard({ paths: ['new'] })
        expect(await output(fork, 'ls')).toBe('a\nmore\n')
        expect(await output(sandbox, 'ls')).toBe('a\nnew\n')
        expect(await listed(fork)).toEqual(['modified a', 'created more'])
        expect(await fork.workspace.commit()).toMatchObject({ applied: 2 })
        expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('two\n')
        expect(await fork.checkpoints()).toEqual([])
      })
    }),
  )

  it(
    'has a name, which no other open fork of the same sandbox has',
    inWorkspace(async ({ sandbox, directory, stateDir }) => {
      const forks = await sandbox.fork(2)
      const add = async (made: Promise<Sandbox | Sandbox[]>) => {
        const list = [await made].flat()
        forks.push(...list)
        return list.map(({ name }) => name)
      }
      try {
        expect([sandbox.name, ...forks.map(({ name }) => name)]).toEqual([null, 'fork-1', 'fork-2'])
        expect(await add(sandbox.fork({ name: 'red' }))).toEqual(['red'])
        expect(await add(sandbox.fork(2, { name: 'red' }))).toEqual(['red-1', 'red-2'])
        const [first, , red] = forks as [Sandbox, Sandbox, Sandbox]
        // Also from another fork, and with the name of one that was numbered.
        for (const name of ['red', 'fork-1'])
          for (const parent of [sandbox, first])
            expect(await rejectionOf(parent.fork({ name }))).toMatchObject({
              code: 'INVALID_OPTION',
              message: `name: '${name}' is an open fork already; choose another name, or destroy that fork`,
            })
        expect(await add(first.fork())).toEqual(['fork-3'])
        expect(await add(Sandbox.merge([red, first]).then((merged) => merged.sandbox))).toEqual(['merge-1'])
        await red.destroy()
        expect(await add(sandbox.fork({ name: 'red' }))).toEqual(['red'])
        expect(await add(sandbox.fork({ name: 'fork-4' }))).toEqual(['fork-4'])
        // A fork that fails leaves its name free, and no number comes again.
        expect(await rejectionOf(sandbox.fork({ name: 'late', signal: AbortSignal.abort() }))).toMatchObject({
          name: 'AbortError',
        })
        expect(await add(sandbox.fork({ name: 'late' }))).toEqual(['late'])
        expect(await add(sandbox.fork())).toEqual(['fork-5'])
        // Another sandbox has its own names.
        await using other = new Sandbox({ cwd: directory, stateDir, ...copyOnWrite })
        expect(await add(other.fork())).toEqual(['fork-1'])
      } finally {
        await Promise.all(forks.map((fork) => fork.destroy()))
      }
    }),
  )

  it(
    'conflicts with another one that has committed the same path',
    inWorkspace(async ({ sandbox, directory }) => {
      await withForks(sandbox, 3, async ([first, second, third]) => {
        await first?.exec('echo first > a; echo > b')
        await second?.exec('echo second > a; echo > c')
        await third?.exec('echo > d')
        await first?.workspace.commit()
        const refused = rejectionOf((second as Sandbox).workspace.commit())
        expect(await refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a'] })
        await third?.workspace.commit()
        await second?.workspace.commit({ paths: ['c'] })
        expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('first\n')
        expect(readdirSync(directory).sort()).toEqual(['a', 'b', 'c', 'd'])
      })
    }),
  )

  it(
    'outlives its parent, and the last one leaves nothing',
    inWorkspace(async ({ sandbox, directory, stateDir }) => {
      await using parent = new Sandbox({ cwd: directory, stateDir, ...copyOnWrite })
      await parent.exec('x=1; echo one > one')
      await withForks(parent, 8, async (forks) => {
        const all = path.join(stateDir, 'workspaces')
        const stores = () => (existsSync(all) ? readdirSync(all).length : 0)
        expect(stores()).toBe(9)
        await parent.destroy()
        for (const [at, fork] of forks.entries()) {
          expect(await output(fork, `echo $x; cat one; echo ${at} > one; cat one`)).toBe(`1\none\n${at}\n`)
          await fork.destroy()
          expect(stores()).toBe(at === 7 ? 0 : 8 - at)
        }
      })
      await sandbox.exec('true')
    }),
  )

  it('ends with its host, and the next sandbox removes what is left', async () => {
    const base = temporary('nacre-fork-')
    try {
      const options = { cwd: base, stateDir: `${base}-state`, ...copyOnWrite }
      const host = startHost(`
        const steps = async () => {
          const sandbox = new Sandbox(${JSON.stringify(options)})
          await sandbox.exec('echo one > one')
          const fork = await sandbox.fork()
          const child = await fork.fork()
          for (const each of [fork, child]) await each.exec('sleep 1000 & echo two > one')
          print('made')
        }
        steps()`)
      await host.printed('made')
      host.child.kill('SIGKILL')
      await host.ended()
      await expectGone(host.tag)
      await using sandbox = new Sandbox(options)
      await sandbox.exec('true')
      await holds(() => readdirSync(path.join(`${base}-state`, 'workspaces')).length === 1)
      expect(readdirSync(base)).toEqual([])
    } finally {
      rmSync(`${base}-state`, { recursive: true, force: true })
    }
  })

  it('lives on while its named parent is opened again, which cannot be deleted meanwhile', async () => {
    const base = temporary('nacre-fork-')
    const [cwd, stateDir] = [path.join(base, 'real'), path.join(base, 'state')]
    mkdirSync(cwd)
    const options = { cwd, stateDir, workspace: { mode: 'copy-on-write', id: 'task' } } as const
    const parent = new Sandbox(options)
    await parent.exec('echo one > one')
    await withForks(parent, 1, async ([fork]) => {
      if (fork === undefined) throw new Error('there is no fork')
      await parent.exec('echo two > one')
      await parent.destroy()
      const refused = await rejectionOf(parent.workspace.delete('task'))
      expect(refused).toMatchObject({ code: 'WORKSPACE_IN_USE' })
      expect(refused.message).toContain('forks still use its layers')
      expect(await fork.workspace.info()).toEqual({ path: cwd, id: null })
      await using again = new Sandbox(options)
      expect(await output(again, 'cat one; echo three > one')).toBe('two\n')
      expect(await output(fork, 'cat one; echo four > one; cat one')).toBe('one\nfour\n')
      expect(await output(again, 'cat one')).toBe('three\n')
    })
    await parent.workspace.delete('task')
    expect(existsSync(path.join(stateDir, 'workspaces', 'id-task'))).toBe(false)
  })

  it(
    'has the isolation, the user and the limits of its parent, and a limit in memory of its own',
    inWorkspace(
      async ({ sandbox, stateDir }) => {
        await sandbox.createSession({ id: 'closed', isolation: 'read-only' })
        await sandbox.exec('head -c 3M /dev/zero > large')
        await withForks(sandbox, 2, async (forks) => {
          for (const fork of forks) {
            expect(await output(fork, 'head -c 3M /dev/zero > own && cat large own | wc -c')).toBe(
              '6291456\n',
            )
            expect((await fork.exec('cat /dev/zero > more')).stderr).toContain('No space left')
            const denied = await fork.exec(`rm more; echo > /outside; echo > ${stateDir}/x; ulimit -n`)
            expect([denied.stdout, denied.stderr.split('\n').length]).toEqual(['99\n', 3])
            const closed = await fork.getSession('closed')
            expect((await closed?.exec('echo > a'))?.exitCode).toBe(1)
          }
        })
      },
      {
        isolation: 'workspace',
        limits: { openFiles: 99 },
        workspace: { mode: 'copy-on-write', storage: 'memory', maxBytes: 4 << 20 },
      },
    ),
  )

  it.skipIf(process.getuid?.() !== 0)(
    'runs as the user of its parent',
    inWorkspace(
      async ({ sandbox, directory }) => {
        await sandbox.exec('cd /; x=1')
        await withForks(sandbox, 1, async ([fork]) => {
          expect(
            await output(fork ?? null, `id -u; echo $x; touch ${directory}/b 2>/dev/null || echo denied`),
          ).toBe('65534\n1\ndenied\n')
        })
      },
      { user: { uid: 65534, gid: 65534 } },
    ),
  )

  it.skipIf(!hasGroups)(
    'is made beside a process that writes, unless busy says otherwise',
    inWorkspace(async ({ sandbox }) => {
      const writer =
        'for ((i = 0; ; i++)); do echo $i > one.new; mv one.new one; echo $i > two.new; mv two.new two; done'
      const { pid } = await sandbox.startProcess(writer)
      await sandbox.exec('until [ -e two ]; do :; done')
      const calls = [() => sandbox.fork(1, { busy: 'reject' }), () => sandbox.checkpoint({ busy: 'reject' })]
      for (const call of calls) {
        const refused = await rejectionOf(call())
        expect(refused).toMatchObject({ code: 'WORKSPACE_BUSY' })
        expect(refused.message).toContain(`programs are using the workspace: ${pid} (`)
      }
      expect(await sandbox.checkpoints()).toEqual([])
      await withForks(sandbox, 2, async (forks) => {
        const before = await Promise.all(forks.map((fork) => output(fork, 'cat one two')))
        const goesOn = 'n=$(<one); until [ "$(<one)" != "$n" ]; do :; done; echo on'
        expect(await output(sandbox, goesOn)).toBe('on\n')
        for (const [at, fork] of forks.entries()) {
          expect(await output(fork, 'cat one two')).toBe(before[at])
          const [one, two] = (before[at] ?? '').split('\n').map(Number)
          expect([0, 1]).toContain((one ?? 0) - (two ?? 0))
          expect(await fork.listProcesses()).toEqual([])
        }
      })
      await sandbox.killAllProcesses()
      await withForks(sandbox, 1, async () => {})
      await Promise.all((await sandbox.fork(1, { busy: 'reject' })).map((fork) => fork.destroy()))
    }),
  )

  it(
    'has the state after the commands before it, and an abort while it waits leaves nothing',
    inWorkspace(async ({ sandbox, directory, stateDir }) => {
      const running = sandbox.exec('until [ -e ../go ]; do sleep 0.01; done; x=after; echo after > a')
      const controller = new AbortController()
      const aborted = rejectionOf(sandbox.fork(3, { signal: controller.signal }))
      const forking = sandbox.fork(1)
      const later = sandbox.exec('x=later; echo later > a')
      controller.abort('why')
      expect(await aborted).toMatchObject({
        ...{ name: 'AbortError', cause: 'why', message: 'the fork was aborted' },
      })
      const early = rejectionOf(sandbox.fork(1, { signal: AbortSignal.abort('early') }))
      expect(await early).toMatchObject({ name: 'AbortError', cause: 'early' })
      writeFileSync(path.join(directory, '../go'), '')
      await running
      const forks = await forking
      expect(await output(forks[0] as Sandbox, 'echo $x; cat a')).toBe('after\nafter\n')
      await later
      expect(readdirSync(path.join(stateDir, 'workspaces')).length).toBe(2)
      await forks[0]?.destroy()
    }),
  )

  it(
    'is refused if the sandbox is destroyed or rolled back meanwhile',
    inWorkspace(async ({ directory, stateDir, sandbox }) => {
      const options = { cwd: directory, stateDir, ...copyOnWrite }
      const own = new Sandbox(options)
      await own.exec('echo > b')
      const point = await own.checkpoint()
      const running = rejectionOf(own.exec('echo > began; sleep 1000'))
      await holds(async () => await own.files.exists('began'))
      const rolledBack = rejectionOf(own.fork(2))
      await own.rollback(point)
      expect([await running, await rolledBack]).toMatchObject([
        { code: 'ROLLED_BACK' },
        { code: 'ROLLED_BACK' },
      ])
      const forking = Promise.allSettled([own.fork(8), own.fork(8), own.fork(8)])
      await own.destroy()
      for (const outcome of await forking) {
        if (outcome.status === 'fulfilled') await Promise.all(outcome.value.map((fork) => fork.destroy()))
        else expect(outcome.reason).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      }
      expect(await rejectionOf(own.fork())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      await sandbox.exec('true')
    }),
  )

  it(
    'that cannot be opened rejects, leaves nothing, and the parent goes on',
    inWorkspace(async ({ sandbox, directory, stateDir }) => {
      await sandbox.exec('x=1; echo one > a')
      renameSync(directory, `${directory}-away`)
      mkdirSync(directory)
      const refused = await rejectionOf(sandbox.fork(3))
      expect(refused.message).toContain('its directory was replaced by another one')
      rmSync(directory, { recursive: true })
      renameSync(`${directory}-away`, directory)
      expect(readdirSync(path.join(stateDir, 'workspaces')).length).toBe(1)
      expect(await output(sandbox, 'echo $x; cat a')).toBe('1\none\n')
      await withForks(sandbox, 1, async ([fork]) => {
        expect(await output(fork ?? null, 'echo $x; cat a')).toBe('1\none\n')
      })
    }),
  )

  it('needs a workspace and a count from 1 to 256', () =>
    withSandbox(async ({ sandbox }) => {
      expect(await rejectionOf(sandbox.fork())).toMatchObject({ code: 'WORKSPACE_NOT_ENABLED' })
      for (const bad of [0, -1, 1.5, 257, '2', null, Number.NaN, true])
        expect((await rejectionOf(sandbox.fork(bad as never))).message).toMatch(/^count must be/)
      for (const bad of [{ busy: 'wait' }, { unknown: 1 }, { signal: 1 }, 'busy'])
        expect(await rejectionOf(sandbox.fork(1, bad as never))).toBeInstanceOf(TypeError)
      for (const bad of [{ busy: 'wait' }, { unknown: 1 }, { signal: 1 }, []])
        expect(await rejectionOf(sandbox.fork(bad as never))).toBeInstanceOf(TypeError)
    }))

  it(
    'is one sandbox without a count, and a list with one',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('x=1')
      await using one = await sandbox.fork()
      expect(await output(one, 'echo $x')).toBe('1\n')
      const list = await sandbox.fork(1)
      expect(list).toHaveLength(1)
      await list[0]?.destroy()
      await using early = await sandbox.fork({ busy: 'reject' })
      expect(await output(early, 'echo $x')).toBe('1\n')
      const reason = await rejectionOf(sandbox.fork({ signal: AbortSignal.abort('early') }))
      expect(reason).toMatchObject({ name: 'AbortError' })
    }),
  )

  it(
    'is not made over HTTP',
    inWorkspace(async ({ sandbox }) => {
      await using server = await serve(sandbox, { port: 0 })
      await using client = new SandboxClient({ url: server.url })
      expect('fork' in client).toBe(false)
      await client.exec('sleep 1000 & echo $!', { timeout: 10_000 })
      if (hasGroups)
        expect(await rejectionOf(client.checkpoint({ busy: 'reject' }))).toMatchObject({
          code: 'WORKSPACE_BUSY',
        })
      await sandbox.exec('kill %1; wait')
    }),
  )
})
