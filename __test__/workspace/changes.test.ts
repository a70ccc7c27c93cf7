/** Programs in a copy-on-write workspace change nothing real, and every change is listed. */
import { existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { type Change, Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { startHost } from '../helpers/host.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { holds } from '../helpers/until.js'

const isRoot = process.getuid?.() === 0
const copyOnWrite: SandboxOptions = { workspace: 'copy-on-write' }

/** A sandbox with a workspace over a directory with two files. */
function inWorkspace(
  test: (workplace: Workplace) => Promise<void>,
  options: SandboxOptions = {},
): () => Promise<void> {
  return () =>
    withSandbox(
      async (workplace) => {
        prepare(workplace)
        await test(workplace)
        expect(real(workplace)).toEqual(['one\n', 'two\n', false])
      },
      { options: { ...copyOnWrite, ...options } },
    )
}

function prepare({ directory }: Workplace): void {
  mkdirSync(path.join(directory, 'sub'))
  writeFileSync(path.join(directory, 'a'), 'one\n')
  writeFileSync(path.join(directory, 'sub/b'), 'two\n')
}

/** The real files. */
function real({ directory }: Workplace) {
  const read = (name: string) => readFileSync(path.join(directory, name), 'utf8')
  return [read('a'), read('sub/b'), existsSync(path.join(directory, 'new'))]
}

const CHANGE = 'echo changed > a; rm sub/b; echo new > new'
const CHANGED = ['modified a', 'created new', 'deleted sub/b']
const listed = (changes: Change[]) => changes.map(({ type, path }) => `${type} ${path}`)

describe('a copy-on-write workspace', () => {
  for (const mode of [...modes, ...plain])
    it(`keeps changes from the real directory, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox, directory } = workplace
          prepare(workplace)
          expect(await sandbox.workspace.changes()).toEqual([])
          const { stdout } = await sandbox.exec(`${CHANGE}; pwd; cat a; ls sub`)
          expect(stdout).toBe(`${directory}\nchanged\n`)
          expect(listed(await sandbox.workspace.changes())).toEqual(CHANGED)
          expect(real(workplace)).toEqual(['one\n', 'two\n', false])
          expect(await sandbox.workspace.info()).toEqual({ path: directory, id: null })
        },
        { options: copyOnWrite },
      ))

  it(
    'is one for all sessions, processes, terminals and files',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec(CHANGE)
      const session = await sandbox.createSession()
      expect((await session.exec('cat a; ls sub')).stdout).toBe('changed\n')
      const process = await session.startProcess('cat new; echo more > more')
      expect([await process.waitForExit(), (await process.getLogs()).stdout]).toMatchObject([
        { exitCode: 0 },
        'new\n',
      ])
      const terminal = await sandbox.startProcess('cat more', { pty: true })
      await terminal.waitForExit()
      expect((await terminal.getLogs()).stdout).toBe('more\r\n')
      expect(await sandbox.files.read('a')).toBe('changed\n')
      await session.files.write('written', 'by the files API')
      expect((await sandbox.exec('cat written')).stdout).toBe('by the files API')
      expect(await sandbox.files.list('.')).toHaveLength(5)
      expect(listed(await sandbox.workspace.changes({ paths: ['more', 'written'] }))).toEqual([
        'created more',
        'created written',
      ])
    }),
  )

  it(
    'survives the death of its shell and its supervisor',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec(`${CHANGE}; v=kept`)
      await sandbox.exec('kill -9 $$')
      expect((await sandbox.exec('cat a; echo $v')).stdout).toBe('changed\nkept\n')
      await sandbox.exec('kill -9 $PPID; sleep 1000').catch(() => {})
      expect((await sandbox.exec('cat a; echo $v')).stdout).toBe('changed\nkept\n')
      expect(listed(await sandbox.workspace.changes())).toEqual(CHANGED)
    }),
  )

  for (const isolation of ['workspace', 'workspace+network'] as const)
    it(
      `holds together with isolation: '${isolation}'`,
      inWorkspace(
        async ({ sandbox }) => {
          await sandbox.exec(CHANGE)
          const { stdout } = await sandbox.exec('cat a; touch /var/tmp/nacre-outside; echo $?')
          expect(stdout).toBe('changed\n1\n')
          expect(listed(await sandbox.workspace.changes())).toEqual(CHANGED)
        },
        { isolation },
      ),
    )

  it(
    'keeps protected and hidden files so',
    inWorkspace(async ({ directory, stateDir }) => {
      const isolation = { filesystem: { write: ['.'], protect: ['a'], hide: ['sub'] } }
      await using sandbox = new Sandbox({ cwd: directory, stateDir, ...copyOnWrite, isolation })
      const { stdout } = await sandbox.exec('echo x >> a; echo $?; ls sub; echo ok > new; cat new')
      expect(stdout).toBe('1\nok\n')
      expect(listed(await sandbox.workspace.changes())).toEqual(['created new'])
    }),
  )

  if (isRoot)
    it('belongs to the user of the sandbox', () =>
      withSandbox(
        async (workplace) => {
          const { sandbox, directory } = workplace
          prepare(workplace)
          await sandbox.exec('echo x > a; echo $?').then(({ stdout }) => expect(stdout).toBe('1\n'))
          await sandbox.exec('echo mine > /tmp/mine-$$ && rm /tmp/mine-$$')
          expect(await sandbox.workspace.changes()).toEqual([])
          expect(real({ ...workplace, directory })).toEqual(['one\n', 'two\n', false])
        },
        { options: { ...copyOnWrite, user: { uid: 65534, gid: 65534 } } },
      ))

  it(
    'hides its layers, and measures them',
    inWorkspace(async ({ sandbox, stateDir }) => {
      await sandbox.exec('head -c 100000 /dev/zero > new; ls sub')
      const { bytes, files, layers } = await sandbox.workspace.usage()
      expect([bytes >= 100_000, files, layers]).toEqual([true, 1, 1])
      expect((await sandbox.exec(`ls -A ${stateDir}/workspaces`)).stdout).toBe('')
    }),
  )

  it(
    'follows what happens to the real directory',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo same > a; echo mine > later')
      writeFileSync(path.join(directory, 'a'), 'same\n')
      writeFileSync(path.join(directory, 'later'), 'theirs')
      expect(listed(await sandbox.workspace.changes())).toEqual(['modified later'])
      writeFileSync(path.join(directory, 'a'), 'one\n')
      rmSync(path.join(directory, 'later'))
    }),
  )

  it('is refused where it cannot be, before anything runs', () => {
    const directory = temporary('nacre-workspace-')
    const file = path.join(directory, 'file')
    writeFileSync(file, '')
    symlinkSync('/', path.join(directory, 'root'))
    const make = (options: object) => thrownBy(() => new Sandbox({ cwd: directory, ...options }))
    const of = (file: string) => ({ workspace: { mode: 'copy-on-write', path: file } })
    for (const bad of ['missing', 'file', 'root', '/'])
      expect((make(of(bad)) as Error).message).toMatch(
        /^workspace\.path must (be an existing|not be the root) directory/,
      )
    const inside = make({ ...copyOnWrite, stateDir: path.join(directory, 'state') }) as Error
    expect(inside.message).toMatch(/^workspace must not contain stateDir/)
  })

  it(
    'has no durable jobs, which would outlive it',
    inWorkspace(async ({ sandbox }) => {
      expect(await rejectionOf(sandbox.jobs.start({ command: 'true' }))).toMatchObject({
        code: 'WORKSPACE_UNSUPPORTED',
      })
    }),
  )

  it('leaves nothing behind when its host is killed', async () => {
    const base = temporary('nacre-workspace-')
    mkdirSync(path.join(base, 'real'))
    const options = JSON.stringify({ cwd: `${base}/real`, stateDir: `${base}/state`, ...copyOnWrite })
    const host = startHost(
      `const sandbox = new Sandbox(${options}); sandbox.exec('mkdir -p x/y; chmod 0 x; sleep 1000 & echo hi > a').then(() => print('made'))`,
    )
    await host.printed('made')
    host.child.kill('SIGKILL')
    await host.ended()
    await holds(() => !existsSync(`${base}/state/workspaces`))
    await holds(() => proc.tagged(host.tag).length === 0)
    expect(existsSync(path.join(base, 'real/a'))).toBe(false)
  })
})
