/** Sandboxes with a name: the next one goes on with their sessions, however the one before has ended. */
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { expectGone, startHost } from '../helpers/host.js'
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
  /** What is on the disk for the default session. */
  const state = ({ kept }: Place) => {
    const file = path.join(kept, 'session-default')
    return existsSync(file) ? readFileSync(file, 'latin1') : ''
  }

  const start = ({ options }: Place, program: string) =>
    startHost(`
      const sandbox = new Sandbox(${JSON.stringify(options)})
      void (async () => { ${program} })().catch((error) => print(String(error.stack)))`)

  it('leaves the state after the last command', async () => {
    const here = place()
    for (let round = 0; round < 5; round++) {
      const host = start(
        here,
        `await sandbox.exec('x=\${x}${round}; f${round}() { :; }'); print('answered'); await new Promise(() => setInterval(() => {}, 1000))`,
      )
      await host.printed('answered')
      await holds(() => state(here).includes(`f${round}`))
      host.child.kill('SIGKILL')
      await host.ended()
      await expectGone(host.tag)
    }
    await within(here.options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('01234\n'))
  })

  it('leaves the state before the command that runs', async () => {
    const here = place()
    const host = start(
      here,
      `await sandbox.exec('x=before'); sandbox.exec('x=within; touch begun; sleep 1000; echo $x').catch(() => {})`,
    )
    await holds(() => readdirSync(here.cwd).includes('begun'))
    await holds(() => state(here).includes('before'))
    host.child.kill('SIGKILL')
    await host.ended()
    await expectGone(host.tag)
    await within(here.options, async (sandbox) => expect(await stdout(sandbox, 'echo $x')).toBe('before\n'))
  })
})
