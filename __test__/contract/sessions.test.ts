/** Sessions and variables are the same here and over HTTP. */
import { mkdirSync } from 'node:fs'
import path from 'node:path'
import { describe, expect } from 'vitest'
import { made } from '../helpers/stream.js'
import { rejectionOf, rejectionsOf } from '../helpers/thrown.js'
import { itHolds } from './helper.js'

describe('sessions', () => {
  itHolds('say what their rules refuse', async ({ sandbox }) => {
    const session = await sandbox.createSession({ isolation: 'workspace' })
    expect((await session.why('/opt/new')).map(({ kind, fix }) => [kind, fix?.add])).toEqual([
      ['write', '/opt'],
    ])
    expect((await session.why('a.test:443')).map(({ rule }) => rule)).toEqual(['isolation.network.allow'])
    const others = ['', 'a\0b', 7 as never].map((target) => session.why(target))
    for (const error of await rejectionsOf(others)) expect(error).toMatchObject({ code: 'INVALID_OPTION' })
    await session.delete()
    expect(await rejectionOf(session.why('/x'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
  })

  itHolds('are isolated, listed and deleted', async ({ sandbox, directory }) => {
    mkdirSync(path.join(directory, 'sub'))
    const one = await sandbox.createSession({
      id: 'one',
      env: { A: 'x', NACRE_TEST_TAG: undefined },
      cwd: 'sub',
    })
    await one.exec('export B=y; f() { echo f; }')
    expect((await one.exec('echo $A$B ${NACRE_TEST_TAG-unset}; pwd; f')).stdout).toBe(
      `xy unset\n${directory}/sub\nf\n`,
    )
    const other = await sandbox.exec('echo "[$A$B] ${NACRE_TEST_TAG+set}"; pwd; f')
    expect([other.stdout, other.exitCode]).toEqual([`[] set\n${directory}\n`, 127])
    expect((await sandbox.exec('echo $B', { sessionId: 'one' })).stdout).toBe('y\n')
    expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default', 'one'])
    expect((await sandbox.getSession('one'))?.id).toBe('one')
    expect(await sandbox.getSession('none')).toBeNull()
    const both = await Promise.allSettled(['two', 'two', 'one'].map((id) => sandbox.createSession({ id })))
    expect(both.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected', 'rejected'])
    for (const result of both)
      if (result.status === 'rejected')
        expect(result.reason).toMatchObject({ code: 'SESSION_ALREADY_EXISTS' })
    const nowhere = sandbox.createSession({ id: 'three', cwd: '/proc/does/not/exist' })
    expect(await rejectionOf(nowhere)).toMatchObject({ code: 'CWD_NOT_FOUND' })
    expect(await sandbox.getSession('three')).toBeNull()
    await sandbox.deleteSession('one')
    expect(await sandbox.getSession('one')).toBeNull()
    expect(await rejectionOf(one.exec('true'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    expect(await rejectionOf(sandbox.deleteSession('one'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    const two = await sandbox.createSession()
    expect(two.id).toMatch(/^[0-9a-f-]{36}$/)
    await two.delete()
    expect(await rejectionOf(two.delete())).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    await two[Symbol.asyncDispose]()
  })

  itHolds('can be isolated', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'closed', isolation: 'read-only' })
    expect(await session.exec('echo x > new')).toMatchObject({ success: false, stdout: '' })
    expect(await rejectionOf(session.files.write('new', 'x'))).toMatchObject({ code: 'PERMISSION_DENIED' })
    expect((await session.exec('ls; exec 3<>/dev/tcp/127.0.0.1/9')).exitCode).not.toBe(0)
    await sandbox.exec('echo y > old')
    expect((await session.exec('cat old')).stdout).toBe('y\n')
    expect((await sandbox.exec('ls')).stdout).toBe('old\n')
    expect(
      await rejectionOf(sandbox.createSession({ isolation: { filesystem: { write: ['/none'] } } })),
    ).toMatchObject({
      code: 'INVALID_OPTION',
      message: expect.stringContaining('isolation.filesystem.write[0]'),
    })
  })

  itHolds('remember their last commands', async ({ sandbox }) => {
    const session = await sandbox.createSession({ id: 'one' })
    expect(await session.history()).toEqual([])
    const before = Date.now()
    await session.exec('printf äb; echo e >&2; (exit 3)')
    await rejectionOf(session.exec(['sleep', '60 s'], { check: true }))
    await rejectionOf(session.exec('sleep 60', { timeout: 20 }))
    await session.execStream('seq 1000', { maxBuffer: 10 }).result
    const history = await session.history()
    const times = { timestamp: expect.any(String), duration: expect.any(Number) }
    expect(history).toEqual([
      {
        command: 'printf äb; echo e >&2; (exit 3)',
        exitCode: 3,
        signal: null,
        stdoutBytes: 3,
        stderrBytes: 2,
        ...times,
      },
      {
        command: "sleep '60 s'",
        exitCode: 1,
        signal: null,
        stdoutBytes: 0,
        stderrBytes: expect.any(Number),
        ...times,
      },
      { command: 'sleep 60', exitCode: null, signal: 'SIGTERM', stdoutBytes: 0, stderrBytes: 0, ...times },
      { command: 'seq 1000', exitCode: 0, signal: null, stdoutBytes: 3893, stderrBytes: 0, ...times },
    ])
    for (const { timestamp, duration } of history) {
      expect(Date.parse(timestamp)).toBeGreaterThanOrEqual(before - 1)
      expect(duration).toBeGreaterThan(0)
    }
    expect((await session.history({ limit: 2 })).map(({ command }) => command)).toEqual([
      'sleep 60',
      'seq 1000',
    ])
    for (let count = 0; count < 100; count++) await session.exec(`: ${count}`)
    expect((await session.history()).map(({ command }) => command)).toEqual(
      Array.from({ length: 100 }, (_, count) => `: ${count}`),
    )
    expect(await (await sandbox.getSession('default'))?.history()).toEqual([])
    await sandbox.deleteSession('one')
    expect(await rejectionOf(session.history())).toMatchObject({ code: 'SESSION_NOT_FOUND' })
    expect(await (await sandbox.createSession({ id: 'one' })).history()).toEqual([])
  })

  itHolds('take a variable of any valid name', async ({ sandbox }) => {
    const env = JSON.parse('{"__proto__":"x","constructor":"y"}')
    const names = 'echo $__proto__ $constructor'
    expect((await sandbox.exec(names, { env })).stdout).toBe('x y\n')
    await sandbox.setEnvVars(env)
    expect((await sandbox.exec(names)).stdout).toBe('x y\n')
  })

  itHolds('run in parallel, each in the order of its calls', async ({ sandbox }) => {
    const sessions = await Promise.all([1, 2, 3].map((index) => sandbox.createSession({ id: `s${index}` })))
    // None ends before all have begun.
    const meet = (index: number) => `: >${index}; until [ -e 0 -a -e 1 -a -e 2 ]; do sleep 0.01; done`
    await Promise.all(sessions.map((session, index) => session.exec(meet(index))))
    const runs = sessions.flatMap((session) =>
      Array.from({ length: 5 }, (_, index) => session.exec(`printf ${index} >> log-${session.id}`)),
    )
    await Promise.all(runs)
    expect((await sandbox.exec('cat log-*')).stdout).toBe('012340123401234')
  })

  itHolds('keep the order of different calls', async ({ sandbox }) => {
    await using session = await sandbox.createSession()
    const calls = [
      session.exec('x=1'),
      session.execStream('x=${x}2').result,
      session.setEnvVars({ Y: '3' }),
      session.exec('echo $x$Y', { onOutput() {} }),
      session.exec('x='),
    ]
    expect(await calls[3]).toMatchObject({ stdout: '123\n' })
    await Promise.all(calls)
  })

  itHolds('take the calls with them that wait when they are deleted', async ({ sandbox, directory }) => {
    const running = rejectionOf(sandbox.exec('touch begun; sleep 60'))
    const waiting = rejectionsOf([
      sandbox.exec('touch ran'),
      sandbox.execStream('touch ran').result,
      sandbox.exec('touch ran', { onOutput() {} }),
      sandbox.setEnvVars({ OLD: 'yes' }),
    ])
    await made(directory, 'begun')
    const deleted = sandbox.deleteSession('default')
    const next = sandbox.exec('ls; echo "[$OLD]"')
    expect(await running).toMatchObject({ code: 'SESSION_DESTROYED' })
    for (const error of await waiting)
      expect(error).toMatchObject({
        code: 'SESSION_DESTROYED',
        message: "session 'default' was deleted",
      })
    await deleted
    expect((await next).stdout).toBe('begun\n[]\n')
  })

  itHolds('do not run a command that is aborted before its turn', async ({ sandbox }) => {
    await using session = await sandbox.createSession()
    const abort = new AbortController()
    const first = session.exec('until [ -e go ]; do sleep 0.01; done')
    const second = rejectionOf(session.exec('touch no', { signal: abort.signal }))
    const third = session.exec('ls')
    abort.abort()
    expect(await second).toMatchObject({ code: 'ABORT_ERR' })
    await sandbox.exec('touch go')
    await first
    expect((await third).stdout).toBe('go\n')
  })

  itHolds('have variables, streams and processes of their own', async ({ sandbox }) => {
    await using session = await sandbox.createSession()
    const awkward = '\n\'"$(touch ran)`touch ran`\\ \u{1f41a}\t!'
    await session.setEnvVars({ A: awkward, B: '', NACRE_TEST_TAG: undefined })
    expect((await session.exec('printenv A B NACRE_TEST_TAG; ls')).stdout).toBe(`${awkward}\n\n`)
    expect((await session.execStream('echo "$A"').result).stdout).toBe(`${awkward}\n`)
    const process = await session.startProcess('echo $A')
    expect([process.sessionId, (await process.waitForExit()).exitCode]).toEqual([session.id, 0])
    await sandbox.setEnvVars({ C: '$x "' }, { sessionId: session.id })
    expect((await session.exec('echo "$C"')).stdout).toBe('$x "\n')
    expect(await rejectionOf(sandbox.setEnvVars({ 'A-B': 'x' }))).toMatchObject({ code: 'INVALID_ENV_NAME' })
    expect(await rejectionOf(sandbox.setEnvVars({}, { sessionId: 'none' }))).toMatchObject({
      code: 'SESSION_NOT_FOUND',
    })
    await session.exec('readonly R=1')
    const fixed = await rejectionOf(session.setEnvVars({ R: '2' }))
    expect(fixed).toMatchObject({ name: 'SandboxError', code: 'INVALID_ENV_NAME' })
  })
})
