/** Sandboxes with a name: the next one goes on with their sessions, however the one before has ended. */
import { chmodSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectGone, type Host, startHost } from '../helpers/host.js'
import { enter, modes, plain } from '../helpers/modes.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

interface Place {
  options: SandboxOptions
  cwd: string
  /** The files of the name. */
  kept: string
}

function place(more: SandboxOptions = {}): Place {
  const base = temporary('nacre-keep-')
  const cwd = path.join(base, 'work')
  mkdirSync(cwd)
  const stateDir = path.join(base, 'state')
  return {
    options: { cwd, stateDir, keep: 'agent-7', ...more },
    cwd,
    kept: path.join(stateDir, 'kept/agent-7'),
  }
}

/** Runs a test in a sandbox, and destroys it. */
async function within<T>(options: SandboxOptions, test: (sandbox: Sandbox) => Promise<T>): Promise<T> {
  await using sandbox = new Sandbox(options)
  return await test(sandbox)
}

const SET = `
  x='a  b'; declare -A m=([k]=v); export e=1; f() { echo "f $1"; }; alias g='echo aliased'; set -o noclobber; shopt -s extglob
  trap 'echo at TERM' TERM; mkdir -p deep; cd deep; umask 027; (exit 5)`
const SHOW = `
  status=$?; echo "$status $x \${m[k]} $e $PWD $(umask)"; f 1; alias g; set -o | grep noclobber; shopt extglob; trap -p TERM`

async function opened(sandbox: Sandbox, id: string) {
  const session = await sandbox.getSession(id)
  if (session === null) throw new Error(`no session ${id}`)
  return session
}

const stdout = async (session: Pick<Sandbox, 'exec'>, command: string) => (await session.exec(command)).stdout

describe('a sandbox with a name', () => {
  for (const mode of [...modes, plain[0]].filter((one) => one !== undefined))
    it(`goes on after destroy with all sessions, ${mode.name}`, async () => {
      const leave = enter(mode)
      try {
        const { options, kept } = place()
        let shown = ''
        await within(options, async (sandbox) => {
          const session = await sandbox.createSession({ id: 'build', env: { OWN: 'yes' } })
          await session.exec(SET)
          shown = await stdout(session, SHOW)
          expect(shown).toMatch(/^5 a {2}b v 1 .*deep 0027\nf 1\n.*aliased/)
          await session.exec('(exit 5)')
          await session.setEnvVars({ LATER: 'set' })
          await sandbox.exec('y=default')
          await sandbox.createSession({ id: 'unused' })
          await sandbox.createSession({ id: 'deleted' })
          await sandbox.deleteSession('deleted')
          await sandbox.createSession({ id: 'exited', surviveExit: false })
          await rejectionOf((await opened(sandbox, 'exited')).exec('exit 3'))
        })
        expect(readdirSync(kept).sort()).toEqual([
          'host',
          'session-build',
          'session-default',
          'session-unused',
        ])
        for (const name of readdirSync(kept)) expect(statSync(path.join(kept, name)).mode & 0o777).toBe(0o600)
        expect(statSync(kept).mode & 0o777).toBe(0o700)
        for (let round = 0; round < 2; round++)
          await within(options, async (sandbox) => {
            expect((await sandbox.listSessions()).map(({ id }) => id).sort()).toEqual([
              'build',
              'default',
              'unused',
            ])
            const session = await opened(sandbox, 'build')
            expect(await stdout(session, SHOW)).toBe(shown)
            expect(await stdout(session, 'echo $OWN $LATER; (exit 5)')).toBe('yes set\n')
            expect(await stdout(sandbox, 'echo $y$x')).toBe('default\n')
            expect(await rejectionOf(sandbox.createSession({ id: 'build' }))).toMatchObject({
              code: 'SESSION_ALREADY_EXISTS',
            })
          })
      } finally {
        leave()
      }
    })

  it('is for one program at a time', async () => {
    const { options, cwd } = place()
    await within(options, async (sandbox) => {
      await sandbox.exec('x=1')
      const other = new Sandbox({ ...options, cwd })
      for (const call of [() => other.exec('true'), () => other.listSessions()])
        expect(await rejectionOf(call())).toMatchObject({
          code: 'SANDBOX_IN_USE',
          message: `the sandbox 'agent-7' is in use by process ${process.pid}: end that, or give keep another name`,
        })
      await other.destroy()
      await within({ ...options, keep: 'agent-8' }, async (second) =>
        expect(await stdout(second, 'echo "$x"')).toBe('\n'),
      )
      expect(await stdout(sandbox, 'echo $x')).toBe('1\n')
    })
    await within(options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('1\n'))
  })

  it('says what its shells do not have any more', async () => {
    const { options } = place()
    await within(options, async (sandbox) => void (await sandbox.exec('sleep 1000 & exec 7</dev/null; x=1')))
    await within(options, async (sandbox) => {
      const { lostState } = await sandbox.exec('true')
      const reason = 'it ended with the program that ran the session'
      expect(lostState).toEqual([
        { kind: 'job', name: '1: sleep 1000', reason },
        { kind: 'descriptor', name: '7', reason },
      ])
      expect((await sandbox.exec('echo $x')).lostState).toBeUndefined()
    })
  })

  it('is refused if a file is damaged, and goes on without it', async () => {
    const { options, kept } = place()
    await within(options, async (sandbox) => {
      await sandbox.exec('x=1')
      await (await sandbox.createSession({ id: 's' })).exec('y=2')
    })
    const file = path.join(kept, 'session-s')
    writeFileSync(file, readFileSync(file).subarray(0, -1))
    const sandbox = new Sandbox(options)
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({
      code: 'SANDBOX_LOST',
      message: `what is kept as 'agent-7' cannot be read. Remove ${file} to go on without this session: it is damaged, or another version of nacre has written it`,
    })
    rmSync(file)
    expect(await stdout(sandbox, 'echo $x')).toBe('1\n')
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    await sandbox.destroy()
  })

  it('keeps a copy-on-write workspace of the same name', async () => {
    const { options, cwd } = place({ workspace: 'copy-on-write' })
    await within(options, async (sandbox) => {
      await sandbox.exec('echo new > file; x=1')
      expect(await sandbox.workspace.info()).toMatchObject({ id: 'agent-7' })
      await using fork = await sandbox.fork()
      expect(await stdout(fork, 'cat file; echo $x; x=2')).toBe('new\n1\n')
    })
    await within(options, async (sandbox) =>
      expect(await stdout(sandbox, 'cat file; echo $x')).toBe('new\n1\n'),
    )
    expect(readdirSync(cwd)).toEqual([])
  })

  it('has the sessions of a rollback', async () => {
    const { options } = place({ workspace: 'copy-on-write' })
    await within(options, async (sandbox) => {
      await sandbox.exec('x=1')
      const { id } = await sandbox.checkpoint()
      await sandbox.exec('x=2')
      await (await sandbox.createSession({ id: 'later' })).exec('true')
      await sandbox.rollback(id)
    })
    await within(options, async (sandbox) => {
      expect(await stdout(sandbox, 'echo $x')).toBe('1\n')
      expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default'])
    })
  })

  it('tells the logger what cannot be written, and tries again at the end', async () => {
    const messages: string[] = []
    const logger = {
      debug() {},
      info() {},
      warn() {},
      error: (message: string) => void messages.push(message),
    }
    const { options, kept } = place({ logger })
    await within(options, async (sandbox) => {
      await sandbox.exec('x=1')
      await holds(() => readdirSync(kept).includes('session-default'))
      mkdirSync(path.join(kept, 'new-session-default'))
      await sandbox.exec('x=2')
      await holds(() =>
        messages.some((message) => message.includes('the state of the session is not on the disk')),
      )
      rmSync(path.join(kept, 'new-session-default'), { recursive: true })
    })
    await within(options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('2\n'))
  })

  it('is listed, and deleted unless a sandbox has the name', async () => {
    const { options } = place()
    const { stateDir = '' } = options
    expect(await Sandbox.listKept({ stateDir })).toEqual([])
    await within(options, async (sandbox) => {
      await sandbox.exec('x=1')
      expect(await Sandbox.listKept({ stateDir })).toMatchObject([{ name: 'agent-7', inUse: true }])
      expect(await rejectionOf(Sandbox.deleteKept('agent-7', { stateDir }))).toMatchObject({
        code: 'SANDBOX_IN_USE',
      })
    })
    const [kept] = await Sandbox.listKept({ stateDir })
    expect(kept).toEqual({ name: 'agent-7', inUse: false, usedAt: expect.any(Date) as Date })
    expect(Math.abs(Date.now() - Number(kept?.usedAt))).toBeLessThan(60_000)
    await Sandbox.deleteKept('agent-7', { stateDir })
    expect(await Sandbox.listKept({ stateDir })).toEqual([])
    expect(await rejectionOf(Sandbox.deleteKept('agent-7', { stateDir }))).toMatchObject({
      code: 'FILE_NOT_FOUND',
      message: "nothing is kept as 'agent-7'; nacre keep ls lists the names",
    })
    await within(options, async (sandbox) => expect(await stdout(sandbox, 'echo "$x"')).toBe('\n'))
    expect(await rejectionOf(Sandbox.deleteKept('../x', { stateDir }))).toMatchObject({ kind: 'option' })
    expect(await rejectionOf(Sandbox.listKept({ dir: stateDir } as never))).toMatchObject({ kind: 'option' })
  })

  it('needs a name and a directory of its own', async () => {
    for (const keep of ['', '..', 'a/b', 'x'.repeat(129), 7])
      expect(() => new Sandbox({ keep: keep as string })).toThrow(/^keep must be 1 to 128 characters/)
    const { options, kept } = place()
    mkdirSync(path.dirname(kept), { recursive: true })
    chmodSync(path.dirname(kept), 0o777)
    await using sandbox = new Sandbox(options)
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'STATE_DIR_UNAVAILABLE' })
  })
})

describe('the death of the host', () => {
  const start = ({ options }: Place, program: string) =>
    startHost(`
      const sandbox = new Sandbox(${JSON.stringify(options)})
      setInterval(() => {}, 1000)
      void (async () => { ${program} })().catch((error) => print(String(error.stack)))`)

  const kill = async (host: Host) => {
    host.child.kill('SIGKILL')
    await host.ended()
  }

  it('leaves a session that has just begun, and none that was deleted', async () => {
    const here = place()
    const host = start(
      here,
      `const session = await sandbox.createSession({ id: 'new', env: { OWN: 'yes' } })
      await sandbox.createSession({ id: 'old' })
      await sandbox.deleteSession('old')
      await session.exec('x=1')
      print('answered')`,
    )
    await host.printed('answered')
    await kill(host)
    await within(here.options, async (sandbox) => {
      expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default', 'new'])
      expect(await stdout(await opened(sandbox, 'new'), 'echo $x $OWN')).toBe('1 yes\n')
    })
  })

  it('is not waited for by another program while it lives', async () => {
    const here = place()
    const host = start(here, `await sandbox.exec('x=1'); print('answered')`)
    await host.printed('answered')
    await using sandbox = new Sandbox(here.options)
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({
      code: 'SANDBOX_IN_USE',
      message: expect.stringContaining(`process ${host.pid}`) as string,
    })
    await kill(host)
    expect(await stdout(sandbox, 'echo $x')).toBe('1\n')
  })

  it('leaves the state after the last command', async () => {
    const here = place()
    for (let round = 0; round < 5; round++) {
      const host = start(here, `await sandbox.exec('x=\${x}${round}; f${round}() { :; }'); print('answered')`)
      await host.printed('answered')
      await kill(host)
      await expectGone(host.tag)
    }
    await within(here.options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('01234\n'))
  })

  it('leaves its processes as lost, with their logs, and those that had ended', async () => {
    const here = place()
    const host = start(
      here,
      `await (await sandbox.startProcess('echo done; exit 3', { processId: 'ended', autoCleanup: false })).waitForExit()
      const web = await sandbox.startProcess('echo out; echo err >&2; sleep 1000', { processId: 'web' })
      await web.waitForLog('out')
      await web.waitForLog('err')
      const [{ startTime }] = (await sandbox.listProcesses()).filter(({ id }) => id === 'web')
      print('began ' + Number(startTime))`,
    )
    await host.printed('began')
    const files = (kind: string) => readdirSync(here.kept).filter((name) => name.startsWith(kind))
    const logs = () => files('log-').map((name) => readFileSync(path.join(here.kept, name), 'latin1'))
    await holds(
      () => files('process-').length === 2 && ['done', 'err'].every((text) => logs().join().includes(text)),
    )
    await kill(host)
    for (let round = 0; round < 2; round++)
      await within(here.options, async (sandbox) => {
        const [ended, web] = await sandbox.listProcesses()
        expect(ended).toMatchObject({ id: 'ended', status: 'failed', exitCode: 3, reason: 'exit' })
        expect(web).toMatchObject({
          ...{
            id: 'web',
            status: 'error',
            exitCode: null,
            signal: null,
            reason: 'host-lost',
            sessionId: 'default',
          },
          startTime: new Date(Number(/began (\d+)/.exec(host.output())?.[1])),
        })
        expect((await ended?.getLogs())?.stdout).toBe('done\n')
        expect(await web?.getLogs()).toMatchObject({ stdout: 'out\n', stderr: 'err\n' })
        const later = []
        for await (const event of web?.output({ cursor: 4 }) ?? []) later.push(event)
        expect(later).toMatchObject([{ type: 'stderr', data: 'err\n', cursor: 8 }, { type: 'exit' }])
        expect(await web?.kill()).toBe(false)
      })
    await within(here.options, async (sandbox) => {
      await sandbox
        .startProcess('echo again', { processId: 'web', autoCleanup: false })
        .then((web) => web.waitForExit())
      expect((await (await sandbox.getProcess('web'))?.getLogs())?.stdout).toBe('again\n')
      await sandbox.cleanupCompletedProcesses()
      expect(await sandbox.listProcesses()).toEqual([])
    })
    expect(readdirSync(here.kept).sort()).toEqual(['host', 'session-default'])
  })

  it('leaves services that the next sandbox starts again, in the state of their session', async () => {
    const here = place()
    const host = start(
      here,
      `await sandbox.exec('mkdir sub; cd sub; greeting=hello')
      const healthCheck = { log: /^up .*$/ }
      const command = 'echo "up $greeting $OWN $PWD"; exec sleep 1000'
      const options = { restart: 'on-failure', healthCheck, env: { OWN: 'own' }, onStdout() {} }
      await sandbox.startService(command, { ...options, processId: 'web' })
      await sandbox.startService(command, { ...options, processId: 'once', restart: 'never' })
      print('began')`,
    )
    await host.printed('began')
    await holds(() => readdirSync(here.kept).filter((name) => name.startsWith('process-')).length === 2)
    await kill(host)
    const up = { stdout: `up hello own ${here.cwd}/sub\n` }
    for (let round = 0; round < 2; round++)
      await within(here.options, async (sandbox) => {
        await sandbox.listSessions()
        await holds(async () => (await sandbox.getProcess('web'))?.status === 'running')
        expect(await (await sandbox.getProcess('web'))?.getLogs()).toMatchObject(up)
        expect(await sandbox.getProcess('once')).toMatchObject({ status: 'error' })
      })
    await within(here.options, async (sandbox) => {
      await holds(async () => (await sandbox.getProcess('web'))?.status === 'running')
      await (await sandbox.getProcess('web'))?.kill()
    })
    await within(here.options, async (sandbox) =>
      expect(await sandbox.getProcess('web')).toMatchObject({ status: 'killed', killedBy: { by: 'caller' } }),
    )
  })

  it('leaves the state before the command that runs', async () => {
    const here = place()
    const host = start(
      here,
      `await sandbox.exec('x=before'); sandbox.exec('x=within; touch begun; sleep 1000; echo $x').catch(() => {})`,
    )
    await holds(() => readdirSync(here.cwd).includes('begun'))
    await kill(host)
    await expectGone(host.tag)
    await within(here.options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('before\n'))
  })
})
