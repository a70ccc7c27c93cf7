/** What a pause keeps, by the official SDKs. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Context, Sandbox as Interpreter } from '@e2b/code-interpreter'
import { serveE2b } from '@nacre/compat'
import { Sandbox, SandboxNotFoundError } from 'e2b'
import { describe, expect, it } from 'vitest'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds } from '../../../__test__/helpers/until.js'
import { connectionOf, type Place, request, withSandbox, withServer } from './place.js'

const withInterpreter = (test: (sandbox: Interpreter, place: Place) => Promise<void>) =>
  withServer(async (place) =>
    test(await Interpreter.create({ ...place.connection, envs: { NACRE_TEST_TAG: place.tag } }), place),
  )

const archiveOf = (root: string, { sandboxId }: Pick<Sandbox, 'sandboxId'>) =>
  path.join(root, 'records', `${sandboxId}.nacre`)

async function shown(sandbox: Interpreter, code: string, context?: Context): Promise<string> {
  const run = await (context === undefined
    ? sandbox.runCode(code, { language: 'bash' })
    : sandbox.runCode(code, { context }))
  expect(run.error).toBeUndefined()
  return run.logs.stdout.join('')
}

const SET = `x='a  b'; declare -A m=([k]=v); f() { echo "f $1"; }; mkdir -p ~/deep; cd ~/deep; export e=1`
const SHOW = 'echo "$x ${m[k]} $e $PWD $NACRE_TEST_TAG"; f 1'

describe('a full pause', () => {
  it('keeps the shells of contexts, also over a restart of the server, and ends its processes', () =>
    withServer(async ({ root, tag }) => {
      const own = path.join(root, 'own')
      let id = ''
      let context: Context | undefined
      {
        await using server = await serveE2b({ port: 0, root: own })
        const connection = connectionOf(server)
        const sandbox = await Interpreter.create({
          ...connection,
          metadata: { a: 'b' },
          envs: { NACRE_TEST_TAG: tag, OWN: 'own' },
        })
        context = await sandbox.createCodeContext({ language: 'bash', cwd: '/tmp' })
        id = sandbox.sandboxId
        await shown(sandbox, SET)
        await shown(sandbox, 'y=2', context)
        for (let time = 0; time < 2; time++) {
          expect(await sandbox.pause()).toBe(true)
          expect(await sandbox.pause()).toBe(false)
          expect(statSync(archiveOf(own, sandbox)).mode & 0o777).toBe(0o600)
          expect(await sandbox.getInfo()).toMatchObject({ state: 'paused', metadata: { a: 'b' } })
          await sandbox.connect()
          expect(existsSync(archiveOf(own, sandbox))).toBe(false)
          expect(await shown(sandbox, SHOW)).toBe(`a  b v 1 /home/user/deep ${tag}\nf 1\n`)
        }
        // The second context has not been used in this run.
        await sandbox.pause()
      }
      await using server = await serveE2b({ port: 0, root: own })
      const sandbox = await Interpreter.connect(id, connectionOf(server))
      expect(await shown(sandbox, SHOW)).toBe(`a  b v 1 /home/user/deep ${tag}\nf 1\n`)
      expect(await shown(sandbox, 'echo $y $PWD $OWN', context)).toBe('2 /tmp own\n')
      expect((await sandbox.listCodeContexts()).map(({ id }) => id).sort()).toEqual(
        ['bash', context.id].sort(),
      )
      await sandbox.kill()
      expect(readdirSync(path.join(own, 'records'))).toEqual([])
    }))

  it('is refused while a process runs, which goes on', () =>
    withSandbox(async (sandbox, { root, connection }) => {
      await sandbox.files.write('kept', 'kept')
      const running = await sandbox.commands.run('sleep 1000', { background: true })
      for (const options of [{}, { keepMemory: true }]) {
        const { message } = await rejectionOf(sandbox.pause(options))
        expect(message).toContain(
          `501: nacre keeps no memory of processes, so a full pause would end process ${running.pid}`,
        )
        expect(message).toContain('sleep 1000')
        expect(message).toContain("pause with mode 'filesystem' (keepMemory: false)")
      }
      expect((await sandbox.getInfo()).state).toBe('running')
      expect((await sandbox.commands.list()).map(({ pid }) => pid)).toEqual([running.pid])
      expect(existsSync(archiveOf(root, sandbox))).toBe(false)
      const ended = rejectionOf(running.wait())
      await running.kill()
      await ended
      expect(await sandbox.pause()).toBe(true)
      const again = await Sandbox.connect(sandbox.sandboxId, connection)
      expect(await again.files.read('kept')).toBe('kept')
    }))

  it('is refused while a process runs that no call has started', () =>
    withSandbox(async (sandbox) => {
      await sandbox.commands.run('setsid sleep 1000 > /dev/null 2>&1 & echo $!')
      const { message } = await rejectionOf(sandbox.pause())
      expect(message).toContain('501: nacre keeps no memory of processes, so a full pause is not possible')
      expect(message).toContain('sleep 1000)')
      expect(message).not.toContain('busy')
      // It may still be setsid.
      await holds(() => sandbox.commands.run('pkill sleep').catch(() => false))
      await holds(() => sandbox.pause().catch(() => false))
    }))

  it('is refused for the memory of an interpreter, a terminal and a watcher', () =>
    withInterpreter(async (sandbox, { server, connection }) => {
      await sandbox.runCode('x = 1')
      const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData() {} })
      const { envdAccessToken } = sandbox as unknown as { envdAccessToken: string }
      const watched = await request(`${server.url}/filesystem.Filesystem/CreateWatcher`, {
        method: 'POST',
        headers: {
          'content-type': 'application/json',
          'e2b-sandbox-id': sandbox.sandboxId,
          'x-access-token': envdAccessToken,
        },
        body: JSON.stringify({ path: '/home/user' }),
      })
      expect(watched.status).toBe(200)
      const { message } = await rejectionOf(sandbox.pause())
      for (const what of [
        `process ${terminal.pid} (`,
        'the python context python',
        '1 watchers of directories',
      ])
        expect(message).toContain(what)
      expect((await sandbox.runCode('x')).text).toBe('1')
      expect(await sandbox.pause({ keepMemory: false })).toBe(true)
      const again = await Interpreter.connect(sandbox.sandboxId, connection)
      expect((await again.runCode('x')).error?.name).toBe('NameError')
    }))

  it('follows a command that has just ended, and ends streams of watches', () =>
    withSandbox(async (sandbox) => {
      const exits: unknown[] = []
      await sandbox.files.watchDir('.', () => {}, { onExit: (error) => void exits.push(error) })
      await sandbox.files.write('kept', 'kept')
      for (let time = 0; time < 10; time++) {
        await sandbox.commands.run('cat kept; (exit 0) & wait')
        expect(await sandbox.pause()).toBe(true)
        await holds(() => exits.length === 1)
        await sandbox.connect()
      }
    }))

  it('waits for code of a shell that ends soon, and is refused while it does not', () =>
    withInterpreter(async (sandbox) => {
      const soon = sandbox.runCode('touch ready; sleep 0.5; x=1', { language: 'bash' })
      await holds(() => sandbox.files.exists('ready'))
      expect(await sandbox.pause()).toBe(true)
      // Its reply may have been on the way.
      await soon.catch(() => {})
      await sandbox.connect()
      expect(await shown(sandbox, 'echo $x; rm ready')).toBe('1\n')
      const long = rejectionOf(sandbox.runCode('touch ready; sleep 1000', { language: 'bash' }))
      await holds(() => sandbox.files.exists('ready'))
      expect((await rejectionOf(sandbox.pause())).message).toContain('would end code that runs in a context')
      expect(await sandbox.isRunning()).toBe(true)
      await sandbox.kill()
      await long
    }))

  it('is undone by a connect that comes while it is made, and by none after a kill', () =>
    withInterpreter(async (sandbox, { connection, create, root }) => {
      await shown(sandbox, 'x=1')
      const [paused, again] = await Promise.all([
        sandbox.pause(),
        Interpreter.connect(sandbox.sandboxId, connection),
      ])
      expect(paused).toBe(true)
      expect(await sandbox.isRunning()).toBe(true)
      expect(await shown(again, 'echo $x')).toBe('1\n')
      expect(await Promise.all([sandbox.pause(), sandbox.pause()])).toEqual([true, false])
      expect(await sandbox.kill()).toBe(true)
      const other = await create()
      // The server may receive the kill first.
      const pausing = other.pause().catch((error: Error) => error)
      expect(await other.kill()).toBe(true)
      expect([true, false, expect.any(SandboxNotFoundError)]).toContainEqual(await pausing)
      expect(await rejectionOf(sandbox.connect())).toBeInstanceOf(SandboxNotFoundError)
      expect(readdirSync(path.join(root, 'records'))).toEqual([])
    }))

  it('that cannot be undone is an error, and a reboot brings the files back', () =>
    withInterpreter(async (sandbox, { root, connection }) => {
      await shown(sandbox, 'x=1; echo kept > kept')
      await sandbox.pause()
      const archive = archiveOf(root, sandbox)
      const whole = readFileSync(archive)
      writeFileSync(archive, whole.subarray(0, -1))
      const { message } = await rejectionOf(sandbox.connect())
      expect(message).toContain(
        '500: the shells of the sandbox cannot be brought back: the archive cannot be used',
      )
      expect(message).toContain("Connect with onResume: 'reboot'")
      expect((await sandbox.getInfo()).state).toBe('paused')
      writeFileSync(archive, whole)
      await sandbox.connect({ onResume: 'reboot' })
      expect(existsSync(archive)).toBe(false)
      expect(await shown(sandbox, 'echo ${x-none}; cat kept')).toBe('none\nkept\n')
      const url = `${connection.apiUrl}/sandboxes/${sandbox.sandboxId}/pause`
      const post = (body: object) =>
        request(url, {
          method: 'POST',
          headers: { 'x-api-key': connection.apiKey },
          body: JSON.stringify(body),
        })
      expect(await post({ memory: 'yes' })).toMatchObject({ status: 400 })
    }))
})

if (process.getuid?.() === 0)
  it('a full pause is an error on a full disk, and the sandbox runs on', () =>
    withServer(async ({ root, tag }) => {
      const own = path.join(root, 'own')
      mkdirSync(own)
      execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m,mode=700', 'tmpfs', own])
      try {
        await using server = await serveE2b({ port: 0, root: own })
        const sandbox = await Interpreter.create({ ...connectionOf(server), envs: { NACRE_TEST_TAG: tag } })
        await shown(sandbox, 'x=1; head -c 2M /dev/zero > ballast 2> /dev/null; true')
        const { message } = await rejectionOf(sandbox.pause())
        expect(message).toContain(
          '507: the shells of the sandbox cannot be written to its directory (NO_SPACE)',
        )
        expect(readdirSync(path.join(own, 'records'))).toEqual([])
        expect(await shown(sandbox, 'echo $x; rm ballast')).toBe('1\n')
        expect(await sandbox.pause()).toBe(true)
        await sandbox.connect()
        expect(await shown(sandbox, 'echo $x')).toBe('1\n')
      } finally {
        execFileSync('umount', ['-l', own])
      }
    }))

describe('a pause of the files alone', () => {
  it('ends all processes, and keeps no state of shells', () =>
    withInterpreter(async (sandbox, { root, connection }) => {
      await shown(sandbox, 'x=1')
      await sandbox.files.write('kept', 'kept')
      const running = await sandbox.commands.run('sleep 1000', { background: true })
      const ended = rejectionOf(running.wait())
      expect(await sandbox.pause({ keepMemory: false })).toBe(true)
      expect(await sandbox.pause({ keepMemory: false })).toBe(false)
      expect(await ended).toBeInstanceOf(Error)
      expect(existsSync(archiveOf(root, sandbox))).toBe(false)
      const again = await Interpreter.connect(sandbox.sandboxId, connection)
      expect(await again.files.read('kept')).toBe('kept')
      expect(await again.commands.list()).toEqual([])
      expect(await again.listCodeContexts()).toEqual([])
      expect(await shown(again, 'echo ${x-none}')).toBe('none\n')
    }))
})

describe('a pause by its time', () => {
  it('keeps the shells', () =>
    withServer(async ({ connection, root, tag }) => {
      const sandbox = await Interpreter.create({
        ...connection,
        timeoutMs: 60_000,
        envs: { NACRE_TEST_TAG: tag },
        lifecycle: { onTimeout: 'pause' },
      })
      await shown(sandbox, 'x=1')
      await sandbox.setTimeout(0)
      await holds(() => existsSync(path.join(root, 'records', `${sandbox.sandboxId}.json`)))
      await sandbox.connect()
      expect(await shown(sandbox, 'echo $x')).toBe('1\n')
    }))

  it('waits for the end of processes, and the files outlive the server', () =>
    withServer(async ({ root, tag }) => {
      const own = path.join(root, 'own')
      const texts: string[] = []
      const logger = { warn: (text: string) => void texts.push(text), info() {}, error() {}, debug() {} }
      let id = ''
      {
        await using server = await serveE2b({ port: 0, root: own, logger })
        const options = { ...connectionOf(server), timeoutMs: 60_000, envs: { NACRE_TEST_TAG: tag } }
        const sandbox = await Sandbox.create({
          ...options,
          lifecycle: { onTimeout: { action: 'pause', keepMemory: true } },
        })
        id = sandbox.sandboxId
        await sandbox.files.write('kept', 'kept')
        const running = await sandbox.commands.run('sleep 1000', { background: true })
        await sandbox.setTimeout(0)
        await holds(() => texts.length > 0)
        expect(texts.join()).toContain(`sandbox ${id} is due to be paused, and runs on`)
        expect(texts.join()).toContain(`process ${running.pid}`)
        expect((await sandbox.getInfo()).state).toBe('running')
        expect((await sandbox.commands.list()).map(({ pid }) => pid)).toEqual([running.pid])
      }
      await using server = await serveE2b({ port: 0, root: own })
      const sandbox = await Sandbox.connect(id, connectionOf(server))
      expect(await sandbox.files.read('kept')).toBe('kept')
      await sandbox.kill()
    }))

  it('ends processes if the files are all that it keeps', () =>
    withServer(async ({ create, root }) => {
      const lifecycle = { onTimeout: { action: 'pause', keepMemory: false } } as const
      const sandbox = await create({ timeoutMs: 60_000, lifecycle })
      const running = await sandbox.commands.run('sleep 1000', { background: true })
      const ended = rejectionOf(running.wait())
      await sandbox.setTimeout(0)
      await ended
      await holds(() => existsSync(path.join(root, 'records', `${sandbox.sandboxId}.json`)))
    }))
})
