/** The files helper: what it runs as, when it ends, and that no command sees it as one of its processes. */
import { chmodSync, chownSync, existsSync, mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import type { Sandbox } from 'nacre'
import { expect, it } from 'vitest'
import { withSandbox } from '../helpers/invariants.js'
import { itInEveryMode } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

/** The helper is the only child of a supervisor that has its command line. */
function helpers(tag: string): number[] {
  const all = proc.listProcesses()
  const supervisors = new Map(
    proc
      .tagged(tag)
      .filter(isSupervisor)
      .map((entry) => [entry.pid, entry]),
  )
  return all
    .filter(({ pid, parent, state }) => supervisors.has(pid) && supervisors.has(parent) && state !== 'Z')
    .map(({ pid }) => pid)
}

function isSupervisor({ pid }: { pid: number }): boolean {
  return proc.commandLine(pid).includes('nacre-supervisor')
}

itInEveryMode(
  'a first call does not wait for a command that was queued before it',
  async ({ sandbox }) => {
    const waiting = sandbox.exec('until [ -e go ]; do sleep 0.01; done; echo went')
    await sandbox.files.write('go', '')
    expect((await waiting).stdout).toBe('went\n')
  },
  // The session takes longer to start.
  { options: { workspace: 'copy-on-write' } },
)

itInEveryMode(
  'commands and their ends leave the helper alone, and it works in every mode',
  async ({ sandbox, directory }) => {
    await sandbox.files.write('x', '1')
    await sandbox.exec('sleep 60 & cd /; cd - > /dev/null; mkdir d; cd d')
    expect((await sandbox.exec('sleep 60', { timeout: 50 }).catch((error) => error)).code).toBe(
      'COMMAND_TIMEOUT',
    )
    expect(await sandbox.files.read('../x')).toBe('1')
    await sandbox.exec('exit 3')
    await sandbox.exec('kill -9 $$').catch(() => {})
    await sandbox.files.write('y', '2')
    expect(readdirSync(path.join(directory, 'd'))).toEqual(['y'])
    expect(await sandbox.listProcesses()).toEqual([])
    expect(await sandbox.killAllProcesses()).toBe(0)
  },
)

it('calls at the same time are all answered', () =>
  withSandbox(async ({ sandbox }) => {
    const names = Array.from({ length: 200 }, (_, index) => `f${index}`)
    await Promise.all(names.map((name) => sandbox.files.write(name, name)))
    expect(await Promise.all(names.map((name) => sandbox.files.read(name)))).toEqual(names)
    expect(await sandbox.files.list()).toHaveLength(200)
  }))

it('a killed helper is replaced, and its death during a call fails that call only', () =>
  withSandbox(async ({ sandbox, tag }) => {
    await sandbox.files.write('x', '1')
    const [first] = helpers(tag)
    expect(first).toBeDefined()
    process.kill(first ?? 0, 'SIGKILL')
    // A zombie may have threads that still hold the socket; it is reaped after them.
    await holds(() => !existsSync(`/proc/${first}`))
    expect(await sandbox.files.read('x')).toBe('1')
    const watch = sandbox.files.watch()
    const pending = rejectionOf(watch.next())
    await sandbox.files.stat('.')
    process.kill(helpers(tag)[0] ?? 0, 'SIGKILL')
    expect(await pending).toMatchObject({ code: 'ENGINE_ERROR' })
    expect(await sandbox.files.read('x')).toBe('1')
  }))

it('the end of the session ends calls and takes half a write back', () =>
  withSandbox(async ({ sandbox, directory }) => {
    const session = await sandbox.createSession({ id: 'other' })
    async function* stuck() {
      yield Buffer.alloc(3_000_000)
      await new Promise(() => {})
    }
    const signal = new AbortController().signal
    void session.files.write('x', stuck(), { signal }).catch(() => {})
    await holds(() => readdirSync(directory).length === 1)
    const watching = rejectionOf(session.files.watch().next())
    await session.files.stat('.')
    await sandbox.deleteSession('other')
    expect(await watching).toMatchObject({ code: 'SESSION_DESTROYED' })
    expect(readdirSync(directory)).toEqual([])
    expect(await rejectionOf(session.files.stat('.'))).toMatchObject({ code: 'SESSION_NOT_FOUND' })
  }))

it('the death of the supervisor takes half a write back', () =>
  withSandbox(async ({ sandbox, directory, tag }) => {
    async function* stuck() {
      yield Buffer.alloc(3_000_000)
      await new Promise(() => {})
    }
    const abort = new AbortController()
    const writing = rejectionOf(sandbox.files.write('x', stuck(), { signal: abort.signal }))
    await holds(() => readdirSync(directory).length === 1)
    const [helper = 0] = helpers(tag)
    const supervisor = proc.listProcesses().find(({ pid }) => pid === helper)?.parent ?? 0
    process.kill(supervisor, 'SIGKILL')
    await holds(() => readdirSync(directory).length === 0)
    abort.abort()
    await writing
    expect((await sandbox.files.write('y', '1')).size).toBe(1)
  }))

if (process.getuid?.() === 0) {
  const user = { uid: 65534, gid: 65534 }

  it('files are opened and made as the user of the sandbox', () =>
    withSandbox(
      async ({ sandbox, directory }: { sandbox: Sandbox; directory: string }) => {
        chownSync(directory, user.uid, user.gid)
        writeFileSync(path.join(directory, 'secret'), 'x', { mode: 0o600 })
        writeFileSync(path.join(directory, 'fixed'), 'x', { mode: 0o644 })
        mkdirSync(path.join(directory, 'closed'), { mode: 0o700 })
        chmodSync(path.join(directory, 'closed'), 0o700)
        const written = await sandbox.files.write('mine', 'x')
        expect(written.size).toBe(1)
        expect(statSync(path.join(directory, 'mine'))).toMatchObject(user)
        for (const [call, shown] of [
          [() => sandbox.files.read('secret'), 'secret'],
          [() => sandbox.files.write('fixed', 'y'), 'fixed'],
          [() => sandbox.files.write('closed/x', 'y'), 'closed/x'],
          [() => sandbox.files.list('closed'), 'closed'],
          [() => sandbox.files.read('/etc/shadow'), '/etc/shadow'],
          [() => sandbox.files.list('.', { recursive: true }), 'closed'],
        ] as const)
          expect(await rejectionOf(call()), shown).toMatchObject({ code: 'PERMISSION_DENIED', path: shown })
        expect(await rejectionOf(sandbox.files.remove('/etc/hostname'))).toMatchObject({
          code: 'PERMISSION_DENIED',
        })
      },
      { options: { user } },
    ))
}

it('watches and writes that stay open hold up no other call, and one too many says so', () =>
  withSandbox(async ({ sandbox, directory }) => {
    const watches = Array.from({ length: 63 }, () => sandbox.files.watch('.'))
    let begun = 0
    for (const watch of watches) void watch.next().then(() => begun++)
    let tries = 0
    await holds(() => {
      writeFileSync(path.join(directory, `seen-${tries++}`), '')
      return begun === watches.length
    })
    expect((await sandbox.files.list()).length).toBe(tries)
    const late = sandbox.files.write('late', 'x')
    expect(await rejectionOf(late)).toMatchObject({
      code: 'ENGINE_ERROR',
      message: expect.stringContaining('63 open watches and writes'),
    })
    const waits = sandbox.files.write('waits', 'x')
    await sandbox.files.list()
    await watches[0]?.return?.()
    await waits
    await Promise.all(watches.map((watch) => watch.return?.()))
    expect(await sandbox.files.read('waits')).toBe('x')
  }))
