/** Sandboxes that are suspended to a file, and go on in another directory, as on another machine. */
import { execFileSync } from 'node:child_process'
import {
  mkdirSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { type ResumeOptions, Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { enter, modes, plain } from '../helpers/modes.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf } from '../helpers/thrown.js'

/** A stand-in for a machine: a directory of its own for the project and for what nacre keeps. */
function machine(): { cwd: string; stateDir: string } {
  const base = realpathSync(temporary('nacre-machine-'))
  const cwd = path.join(base, 'project')
  mkdirSync(cwd)
  return { cwd, stateDir: path.join(base, 'state') }
}

const archiveIn = () => path.join(temporary('nacre-archive-'), 'agent-7.nacre')

/** Suspends what `act` does in a sandbox. */
async function suspended(options: SandboxOptions, act: (sandbox: Sandbox) => Promise<unknown>) {
  const [sandbox, file] = [new Sandbox(options), archiveIn()]
  try {
    await act(sandbox)
    return { file, done: await sandbox.suspend(file) }
  } finally {
    await sandbox.destroy()
  }
}

/** Runs a test in a sandbox that goes on with an archive. */
async function resumed<T>(
  file: string,
  options: ResumeOptions,
  test: (sandbox: Sandbox, about: { missing: string[]; differences: string[] }) => Promise<T>,
): Promise<T> {
  const { sandbox, ...about } = await Sandbox.resume(file, options)
  await using _ = sandbox
  return await test(sandbox, about)
}

const stdout = async (session: Pick<Sandbox, 'exec'>, command: string) => (await session.exec(command)).stdout

const SET = `
  x='a  b'; declare -A m=([k]=v); export e=1; f() { echo "f $1"; }; alias g='echo aliased'; set -o noclobber; shopt -s extglob
  trap 'echo at TERM' TERM; mkdir -p deep/er; cd deep; pushd er >/dev/null; umask 027; (exit 5)`
const SHOW = `
  status=$?; echo "$status $x \${m[k]} $e $PWD $OLDPWD \${DIRSTACK[1]} $(pwd -P) $(umask)"; f 1; alias g; set -o | grep noclobber
  shopt extglob; trap -p TERM`

describe('a suspended sandbox', () => {
  for (const mode of [...modes, plain[0]].filter((one) => one !== undefined))
    for (const workspace of ['direct', 'copy-on-write'] as const)
      it(`goes on elsewhere with its sessions, ${workspace}, ${mode.name}`, async () => {
        const leave = enter(mode)
        try {
          const [from, to] = [machine(), machine()]
          let shown = ''
          const { file, done } = await suspended({ ...from, workspace }, async (sandbox) => {
            const session = await sandbox.createSession({ id: 'build', env: { OWN: 'yes' } })
            await session.exec(SET)
            shown = await stdout(session, SHOW)
            expect(shown).toMatch(/^5 a {2}b v 1 .*deep\/er .*deep .* 0027\nf 1\n.*aliased/)
            await session.exec('(exit 5)')
            await session.setEnvVars({ LATER: 'set' })
            await sandbox.exec('y=default; echo file > kept')
          })
          expect(done).toMatchObject({ sessions: ['build', 'default'], missing: [] })
          expect(statSync(file).mode & 0o777).toBe(0o600)
          expect([statSync(file).size, readdirSync(path.dirname(file))]).toEqual([
            done.bytes,
            [path.basename(file)],
          ])
          expect(done.files).toBe(workspace === 'direct' ? 0 : 3)
          if (workspace === 'direct') mkdirSync(path.join(to.cwd, 'deep/er'), { recursive: true })
          await resumed(file, to, async (sandbox, about) => {
            expect(about).toEqual({ missing: [], differences: [] })
            expect((await sandbox.listSessions()).map(({ id }) => id).sort()).toEqual(['build', 'default'])
            const session = await sandbox.getSession('build')
            if (session === null) throw new Error('it has no session')
            expect(await stdout(session, SHOW)).toBe(shown.replaceAll(from.cwd, to.cwd))
            expect(await stdout(session, 'echo $OWN $LATER')).toBe('yes set\n')
            const isThere = workspace === 'copy-on-write'
            expect(await stdout(sandbox, 'echo $y; cat kept 2>/dev/null')).toBe(
              `default\n${isThere ? 'file\n' : ''}`,
            )
            if (isThere)
              expect((await sandbox.workspace.changes()).map((one) => one.path)).toEqual([
                'deep',
                'deep/er',
                'kept',
              ])
          })
          expect(readdirSync(to.cwd)).toEqual(workspace === 'direct' ? ['deep'] : [])
        } finally {
          leave()
        }
      })

  it('has the environment of its new place, and none of the old one', async () => {
    const env = { ...process.env, FROM_HOST: 'value-of-the-host', CHANGED: '1', UNSET: '1', SAME: 'old' }
    const { file } = await suspended({ ...machine(), env }, async (sandbox) => {
      await sandbox.createSession({ id: 'asleep' })
      await sandbox.exec('export CHANGED=2 MADE=3; unset UNSET')
    })
    const { PATH = '' } = process.env
    await resumed(file, { ...machine(), env: { PATH }, extendEnv: false }, async (sandbox) =>
      expect(await stdout(sandbox, 'echo ${FROM_HOST-none} $SAME $CHANGED $MADE')).toBe('none 2 3\n'),
    )
    const next = { FROM_HOST: 'another', CHANGED: '4', UNSET: '5', SAME: 'new', NEW: "it's" }
    await resumed(file, { ...machine(), env: next }, async (sandbox) => {
      const show = 'env | grep -E "^(FROM_HOST|CHANGED|UNSET|SAME|NEW|MADE)=" | sort'
      const own = "CHANGED=2\nFROM_HOST=another\nMADE=3\nNEW=it's\nSAME=new\n"
      expect(await stdout(sandbox, show)).toBe(own)
      const asleep = await sandbox.getSession('asleep')
      expect(asleep && (await stdout(asleep, `${show} | head -1`))).toBe('CHANGED=4\n')
      // It can be suspended before any of its shells has started, and afterwards.
      const again = archiveIn()
      await sandbox.suspend(again)
      await resumed(again, { ...machine(), env: { ...next, NEW: 'newer' } }, async (third) => {
        expect(await stdout(third, show)).toBe(own.replace("it's", 'newer'))
      })
    })
    await resumed(file, { ...machine(), env: next }, async (sandbox) => {
      const again = archiveIn()
      await sandbox.suspend(again)
      await resumed(again, { ...machine(), env: { ...next, SAME: 'newest' } }, async (third) =>
        expect(await stdout(third, 'echo $SAME $CHANGED ${UNSET-none}')).toBe('newest 2 none\n'),
      )
    })
  })

  it('says what it does not have any more', async () => {
    const from = machine()
    const { file, done } = await suspended({ ...from, workspace: 'copy-on-write' }, async (sandbox) => {
      mkdirSync(path.join(from.cwd, 'bin'))
      const tool = path.join(from.cwd, 'bin/tool-of-there')
      writeFileSync(tool, '#!/bin/sh\n', { mode: 0o755 })
      await sandbox.startProcess('sleep 1000', { processId: 'server' })
      await sandbox.exec(
        `sleep 1000 & exec 7</dev/null; PATH=$PATH:/nowhere; hash -p /nowhere/tool tool; hash -p ${tool} own`,
      )
      await sandbox.exec(
        'python3 -c "import socket; socket.socket(socket.AF_UNIX).bind(\'s\')"; chmod 4755 bin/tool-of-there',
      )
      const other = await sandbox.createSession({ id: 'other' })
      await other.exec('exec 8</dev/null')
    })
    const lost = ['process server', 'job 1: sleep 1000', 'descriptor 7', "session 'other': descriptor 8"]
    const files = ['socket s', 'mode 4000 of bin/tool-of-there']
    expect(done.missing).toEqual([...lost, ...files])
    const to = machine()
    mkdirSync(path.join(to.cwd, 'bin'))
    writeFileSync(path.join(to.cwd, 'bin/tool-of-there'), '#!/bin/sh\n', { mode: 0o755 })
    await resumed(file, to, async (sandbox, { missing }) => {
      expect(missing).toEqual([...lost, ...files, 'program tool: /nowhere/tool'])
      expect((await sandbox.exec('echo $PATH')).lostState).toBeUndefined()
      expect(await sandbox.listProcesses()).toEqual([])
    })
  })

  it('is refused if it is damaged, foreign or too large, before anything is created', async () => {
    const from = machine()
    const { file } = await suspended({ ...from, workspace: 'copy-on-write' }, (sandbox) =>
      sandbox.exec('x=1; seq 1000 > numbers; ln -s /etc link'),
    )
    const whole = readFileSync(file)
    const place = path.join(path.dirname(file), 'other.nacre')
    const change = (at: number) => {
      const bytes = Buffer.from(whole)
      bytes[at] = (bytes[at] ?? 0) ^ 1
      return bytes
    }
    const zip = execFileSync('gzip', { input: whole })
    const to = machine()
    for (const [bytes, reason] of [
      [change(whole.length - 1), 'damaged'],
      [change(20), 'damaged'],
      [whole.subarray(0, -1), 'damaged'],
      [Buffer.concat([whole, whole]), 'damaged'],
      [Buffer.from('nacre archive 2\n'), 'another version'],
      [zip, 'no archive'],
      [Buffer.alloc(0), 'no archive'],
    ] as const) {
      writeFileSync(place, bytes)
      for (const options of [to, { ...to, keep: 'agent-8' }])
        expect(await rejectionOf(Sandbox.resume(place, options))).toMatchObject({
          code: 'ARCHIVE_REJECTED',
          message: expect.stringContaining(reason),
        })
    }
    expect(await rejectionOf(Sandbox.resume(file, { ...to, maxBytes: 3892 }))).toMatchObject({
      code: 'ARCHIVE_REJECTED',
      message: expect.stringContaining('raise it if you trust the archive'),
    })
    expect(await rejectionOf(Sandbox.resume(`${file}.none`, to))).toMatchObject({ code: 'FILE_NOT_FOUND' })
    expect(await rejectionOf(Sandbox.resume(to.cwd, to))).toMatchObject({ code: 'ARCHIVE_REJECTED' })
    expect(readdirSync(to.cwd)).toEqual([])
    expect(readdirSync(path.join(to.stateDir, 'workspaces'))).toEqual([])
    // A link that leads out is content, which nothing follows.
    await resumed(file, { ...to, maxBytes: 3893 }, async (sandbox) =>
      expect(await stdout(sandbox, 'readlink link; tail -1 numbers')).toBe('/etc\n1000\n'),
    )
  })

  it('goes on under a name, once', async () => {
    const [from, to] = [machine(), machine()]
    const { file } = await suspended({ ...from, keep: 'agent-7', workspace: 'copy-on-write' }, (sandbox) =>
      sandbox.exec('x=1; echo 1 > a'),
    )
    // What is on the disk stays there.
    await using kept = new Sandbox({ ...from, keep: 'agent-7', workspace: 'copy-on-write' })
    expect(await stdout(kept, 'echo $x $(cat a)')).toBe('1 1\n')
    const options = { ...to, keep: 'moved' }
    await resumed(file, options, async (sandbox) =>
      expect(await stdout(sandbox, 'echo $x; x=2; echo 2 >> a')).toBe('1\n'),
    )
    await using next = new Sandbox({ ...options, workspace: 'copy-on-write' })
    expect(await stdout(next, 'echo $x; cat a')).toBe('2\n1\n2\n')
    await next.destroy()
    expect(await rejectionOf(Sandbox.resume(file, options))).toMatchObject({ code: 'SANDBOX_IN_USE' })
    const workspace = { mode: 'copy-on-write', id: 'moved' } as const
    expect(await rejectionOf(Sandbox.resume(file, { ...to, workspace }))).toMatchObject({
      code: 'WORKSPACE_IN_USE',
      message: expect.stringContaining('delete it, or choose another id'),
    })
    await using untouched = new Sandbox({ ...options, workspace: 'copy-on-write' })
    expect(await stdout(untouched, 'echo $x; cat a')).toBe('2\n1\n2\n')
  })

  it('compares the files below its own with those of its new place', async () => {
    const [from, to] = [machine(), machine()]
    for (const { cwd } of [from, to]) for (const name of ['a', 'b']) writeFileSync(path.join(cwd, name), name)
    const { file } = await suspended({ ...from, workspace: 'copy-on-write' }, (sandbox) =>
      sandbox.exec('echo 1 > a'),
    )
    writeFileSync(path.join(to.cwd, 'b'), 'another')
    await resumed(file, to, async (sandbox, { differences }) => {
      expect(differences).toEqual([])
      expect(await stdout(sandbox, 'cat a b')).toBe('1\nanother')
    })
    writeFileSync(path.join(to.cwd, 'a'), 'A')
    const refused = await rejectionOf(Sandbox.resume(file, to))
    expect(refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a'] })
    expect(refused).toMatchObject({ message: expect.stringContaining("use onDifference: 'report'") })
    await resumed(file, { ...to, onDifference: 'report' }, async (sandbox, { differences }) => {
      expect(differences).toEqual(['a'])
      expect(await stdout(sandbox, 'cat a')).toBe('1\n')
    })
  })

  it('needs rules if it had some, and has none of its own', async () => {
    const from = machine()
    const isolation = { filesystem: { write: [from.cwd] } }
    const { file } = await suspended({ ...from, isolation }, (sandbox) => sandbox.exec('x=1'))
    const to = machine()
    expect(await rejectionOf(Sandbox.resume(file, to))).toMatchObject({ code: 'ISOLATION_UNSUPPORTED' })
    const rules = { filesystem: { write: [to.cwd] } }
    await resumed(file, { ...to, isolation: rules }, async (sandbox) =>
      expect(await stdout(sandbox, `echo $x; touch ${from.cwd}/f 2>/dev/null || echo no`)).toBe('1\nno\n'),
    )
    await using sandbox = new Sandbox(machine())
    const own = await sandbox.createSession({ id: 'own', isolation: { network: 'none' } })
    expect(await rejectionOf(sandbox.suspend(file))).toMatchObject({
      code: 'ISOLATION_UNSUPPORTED',
      message: expect.stringContaining("session 'own'"),
    })
    expect(await stdout(own, 'echo it goes on')).toBe('it goes on\n')
  })

  it('goes on if it cannot be written, and leaves nothing behind', async () => {
    const { cwd, stateDir } = machine()
    const place = temporary('nacre-archive-')
    await using sandbox = new Sandbox({ cwd, stateDir, workspace: 'copy-on-write' })
    await sandbox.exec('x=1; echo 1 > a')
    for (const [file, code] of [
      [path.join(place, 'none/a.nacre'), 'FILE_NOT_FOUND'],
      [place, 'IS_A_DIRECTORY'],
      ['/proc/a.nacre', 'FILE_NOT_FOUND'],
    ] as const)
      expect(await rejectionOf(sandbox.suspend(file)), file).toMatchObject({ code })
    const [stop, end] = [new AbortController(), new AbortController()]
    const running = rejectionOf(sandbox.exec('sleep 1000', { signal: end.signal }))
    const waiting = sandbox.suspend(path.join(place, 'a.nacre'), { signal: stop.signal })
    stop.abort()
    expect(await rejectionOf(waiting)).toMatchObject({ name: 'AbortError' })
    end.abort()
    await running
    await sandbox.startProcess('exec sleep 1000')
    expect(await rejectionOf(sandbox.suspend(path.join(place, 'a.nacre'), { busy: 'reject' }))).toMatchObject(
      {
        code: 'WORKSPACE_BUSY',
        message: expect.stringContaining("or use busy: 'end'"),
      },
    )
    expect(readdirSync(place)).toEqual([])
    expect(await stdout(sandbox, 'echo $x $(cat a)')).toBe('1 1\n')
  })

  it('ends with the commands that were running, and takes no more', async () => {
    const { cwd, stateDir } = machine()
    const file = archiveIn()
    const sandbox = new Sandbox({ cwd, stateDir, workspace: 'copy-on-write' })
    const first = sandbox.exec('sleep 0.3; echo 1 > a; x=1')
    const suspending = sandbox.suspend(pathToFileURL(file))
    const late = rejectionOf(sandbox.exec('echo 2 > a; x=2'))
    expect(await first).toMatchObject({ exitCode: 0 })
    await suspending
    expect(await late).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await rejectionOf(sandbox.exec('true'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    expect(await rejectionOf(sandbox.suspend(file))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    await resumed(file, machine(), async (next) =>
      expect(await stdout(next, 'echo $x $(cat a)')).toBe('1 1\n'),
    )
  })

  it('replaces an earlier file, also by a link, and follows a directory that has moved', async () => {
    const from = machine()
    const [file, link] = [archiveIn(), archiveIn()]
    writeFileSync(file, 'earlier')
    symlinkSync(from.cwd, `${from.cwd}-link`)
    const sandbox = new Sandbox({ ...from, cwd: `${from.cwd}-link`, workspace: 'copy-on-write' })
    await sandbox.exec('mkdir d; cd d; x=1')
    await sandbox.suspend(file)
    renameSync(file, link)
    rmSync(`${from.cwd}-link`)
    await resumed(link, machine(), async (next) =>
      expect(await stdout(next, 'basename $PWD; echo $x')).toBe('d\n1\n'),
    )
  })
})
