/** Checkpoints and rollback: files and shells together. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { copyOnWrite, hasGroups, inWorkspaceOver } from '../helpers/in-workspace.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

const inWorkspace = inWorkspaceOver(prepare)

function prepare({ directory }: Workplace): void {
  mkdirSync(path.join(directory, 'old/deep'), { recursive: true })
  for (const name of ['a', 'gone', 'old/b', 'old/deep/c'])
    writeFileSync(path.join(directory, name), `${name}\n`)
}

/** Kind, mode, times, links, target and content of everything that programs see. */
async function seen({ sandbox, directory }: Workplace): Promise<string> {
  const { stdout } = await sandbox.exec(
    `(cd ${directory} && find . -printf '%p %y %m %U %G %n %T@ %l\\n' | sort && find . -type f -exec sha1sum {} + | sort)`,
  )
  return stdout
}

const EVERYTHING = `
  echo changed > a; rm gone; chmod 700 old/b; mkdir -p new/empty; echo new > new/file; ln new/file new/same
  ln -s nowhere new/link; mkfifo new/fifo; truncate -s 5M new/sparse; printf x >> new/sparse
  rm -r old/deep; mkdir old/deep; echo other > old/deep/d; touch "$(printf 'odd\\nname ü')" $'bad\\xff'; chmod 1777 new/empty
  chmod 000 old/b; chmod 750 .`

const RUIN = `
  chmod 755 . old/b; rm -rf new; rm -r old; echo file > old; echo worse > a; mkdir gone; touch more; chmod 711 .`

describe('a checkpoint', () => {
  for (const mode of [...modes, ...plain])
    it(`brings back the files and the shells of every session, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox, directory } = workplace
          prepare(workplace)
          const other = await sandbox.createSession({ id: 'other', env: { GIVEN: 'yes' } })
          await other.exec('own=1; cd old')
          await sandbox.exec(
            `${EVERYTHING}\nvalue='a b'; list=(1 2); f() { echo "f $value"; }; cd new; (exit 7)`,
          )
          const [first] = [await sandbox.checkpoint({ name: 'first' })]
          expect(first).toMatchObject({ name: 'first', sessions: ['default', 'other'] })
          const before = (await sandbox.exec('echo $?')).stdout + (await seen(workplace))

          await sandbox.exec(`value=c; unset list f; cd ..; ${RUIN}; cd /`)
          await sandbox.createSession({ id: 'late' })
          await sandbox.deleteSession('other')
          const rollback = await sandbox.rollback(first)
          expect(rollback).toEqual({
            checkpoint: first,
            endedProcesses: [],
            endedSessions: ['late'],
            missing: [],
          })

          const { stdout } = await sandbox.exec('echo $?')
          expect(stdout + (await seen(workplace))).toBe(before)
          const state = await sandbox.exec('echo "$value ${list[*]}"; f; pwd; ls')
          expect(state.stdout).toBe(
            `a b 1 2\nf a b\n${directory}/new\nempty\nfifo\nfile\nlink\nsame\nsparse\n`,
          )
          const again = await sandbox.getSession('other')
          expect((await again?.exec('echo $own $GIVEN; pwd'))?.stdout).toBe(`1 yes\n${directory}/old\n`)
          expect((await sandbox.listSessions()).map(({ id }) => id)).toEqual(['default', 'other'])
          expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('a\n')
        },
        { options: copyOnWrite },
      ))

  it(
    'can be taken back itself, any number of times',
    inWorkspace(async (workplace) => {
      const { sandbox } = workplace
      const states = []
      for (const step of [EVERYTHING, RUIN, 'rm -r * ; mkdir -p x/y', 'echo last > x/y/z']) {
        await sandbox.exec(step)
        states.push({ point: await sandbox.checkpoint(), seen: await seen(workplace) })
      }
      expect(await sandbox.checkpoints()).toEqual(states.map(({ point }) => point))
      for (const at of [0, 3, 1, 1, 2, 0, 3]) {
        await sandbox.exec('rm -rf ./*; touch something')
        await sandbox.rollback(states[at]?.point.id ?? '')
        expect(await seen(workplace)).toBe(states[at]?.seen)
      }
    }),
  )

  it(
    'ends what runs, and lets file calls wait',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('echo kept > a')
      const point = await sandbox.checkpoint()
      const service = await sandbox.startProcess('while :; do echo x >> a; sleep 0.01; done', {
        processId: 'writer',
      })
      await sandbox.exec('(setsid sleep 1000 &) ; until grep -q x a; do :; done')
      const running = rejectionOf(sandbox.exec('echo running >> a; sleep 1000'))
      const waiting = rejectionOf(sandbox.exec('echo waiting >> a'))
      await holds(async () => String(await sandbox.files.read('a')).includes('running'))
      const watch = sandbox.files.watch('.')[Symbol.asyncIterator]()
      await watch.next()
      const watching = rejectionOf(
        (async () => {
          while (!(await watch.next()).done);
        })(),
      )
      const rolling = sandbox.rollback(point)
      const read = sandbox.files.read('a')
      expect((await rolling).endedProcesses).toEqual(['writer'])
      const rolledBack = { code: 'ROLLED_BACK' }
      expect([await running, await waiting, await watching]).toMatchObject([
        rolledBack,
        rolledBack,
        rolledBack,
      ])
      expect(await read).toBe('kept\n')
      expect(await service.waitForExit()).toMatchObject({ signal: 'SIGKILL' })
      expect((await sandbox.exec('cat a')).stdout).toBe('kept\n')
    }),
  )

  it.skipIf(!hasGroups)(
    'is made beside a process that writes, which goes on',
    inWorkspace(async ({ sandbox }) => {
      const writer =
        'for ((i = 0; ; i++)); do echo $i > one.new; mv one.new one; echo $i > two.new; mv two.new two; done'
      await sandbox.startProcess(writer)
      await sandbox.exec('until [ -e two ]; do :; done')
      const point = await sandbox.checkpoint()
      const { stdout } = await sandbox.exec(
        'n=$(<one); until [ "$(<one)" != "$n" ]; do :; done; echo went on',
      )
      expect(stdout).toBe('went on\n')
      await sandbox.rollback(point)
      const [one, two] = (await sandbox.exec('cat one two')).stdout.split('\n').map(Number)
      expect([0, 1]).toContain((one ?? 0) - (two ?? 0))
    }),
  )

  it(
    'ends with a commit, not with a discard, and changes are right after a rollback',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo 1 > a; rm gone; mkdir new; echo x > new/x')
      const point = await sandbox.checkpoint()
      await sandbox.exec('echo 2 > a; echo back > gone; rm -r new old')
      await sandbox.workspace.discard({ paths: ['a'] })
      await sandbox.rollback(point)
      const listed = (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)
      expect(listed).toEqual(['modified a', 'deleted gone', 'created new', 'created new/x'])
      const { layers } = await sandbox.workspace.usage()
      expect(layers).toBeGreaterThan(1)
      await sandbox.workspace.commit()
      expect(await sandbox.checkpoints()).toEqual([])
      expect(await rejectionOf(sandbox.rollback(point))).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
      expect(readFileSync(path.join(directory, 'new/x'), 'utf8')).toBe('x\n')
      expect(existsSync(path.join(directory, 'gone'))).toBe(false)
      await sandbox.exec('rm -r new')
      expect(await sandbox.workspace.commit()).toMatchObject({ applied: 2 })
      expect(existsSync(path.join(directory, 'new'))).toBe(false)
    }),
  )

  it(
    'takes space until it is deleted',
    inWorkspace(async ({ sandbox }) => {
      const empty = await sandbox.checkpoint()
      await sandbox.exec('head -c 3M /dev/urandom > big')
      const point = await sandbox.checkpoint()
      await sandbox.rollback(empty)
      expect((await sandbox.workspace.usage()).bytes).toBeGreaterThan(2 << 20)
      await sandbox.deleteCheckpoint(point)
      await holds(async () => (await sandbox.workspace.usage()).bytes < 1 << 20)
      expect(await rejectionOf(sandbox.deleteCheckpoint(point))).toMatchObject({
        code: 'CHECKPOINT_NOT_FOUND',
      })
      expect(await sandbox.checkpoints()).toEqual([empty])
    }),
  )

  it(
    'that does not fit changes nothing',
    inWorkspace(
      async (workplace) => {
        const { sandbox } = workplace
        await sandbox.exec('echo small > a')
        const point = await sandbox.checkpoint()
        // An open file is copied.
        await sandbox.exec('head -c 5M /dev/urandom > big; exec 5>> big')
        expect(await rejectionOf(sandbox.checkpoint())).toMatchObject({ code: 'NO_SPACE' })
        expect(await sandbox.checkpoints()).toEqual([point])
        expect((await sandbox.exec('wc -c < big; echo more >> a; cat a')).stdout).toBe(
          '5242880\nsmall\nmore\n',
        )
        // There is no room for the state of the shells either.
        await sandbox.exec('exec 5>&-; cat /dev/zero > rest || true')
        expect(await rejectionOf(sandbox.checkpoint())).toMatchObject({ code: 'NO_SPACE' })
        expect((await sandbox.exec('rm rest; echo most >> a; tail -n 1 a')).stdout).toBe('most\n')
        await sandbox.rollback(point)
        expect((await sandbox.exec('cat a; ls')).stdout).toBe('small\na\ngone\nold\n')
      },
      { workspace: { mode: 'copy-on-write', storage: 'memory', maxBytes: 8 << 20 } },
    ),
  )

  it(
    'stays whole while others are deleted',
    inWorkspace(async (workplace) => {
      const { sandbox } = workplace
      for (let round = 0; round < 8; round++) {
        await sandbox.exec(
          `mkdir d-${round}; for i in {1..300}; do echo ${round} > d-${round}/$i; done; echo ${round} > a`,
        )
        const points = [await sandbox.checkpoint(), await sandbox.checkpoint(), await sandbox.checkpoint()]
        const before = await seen(workplace)
        await sandbox.exec('rm -rf d-*; echo ruined > a')
        const deleted = points.slice(1).map((point) => sandbox.deleteCheckpoint(point))
        await Promise.all([sandbox.rollback(points[0] ?? ''), ...deleted])
        expect(await seen(workplace)).toBe(before)
        await sandbox.deleteCheckpoint(points[0] ?? '')
        expect(await seen(workplace)).toBe(before)
      }
    }),
  )

  it(
    'fails if a rollback comes first, like a commit',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('x=1')
      const point = await sandbox.checkpoint()
      const running = rejectionOf(sandbox.exec('echo began > b; sleep 1000'))
      await holds(async () => await sandbox.files.exists('b'))
      const waiting = [
        sandbox.checkpoint(),
        sandbox.workspace.commit(),
        sandbox.createSession({ id: 'other' }),
      ]
      const outcomes = Promise.all(waiting.map((call) => rejectionOf(call as Promise<unknown>)))
      await sandbox.rollback(point)
      const rolledBack = { code: 'ROLLED_BACK' }
      expect(await outcomes).toMatchObject([rolledBack, rolledBack, rolledBack])
      expect(await running).toMatchObject(rolledBack)
      expect((await sandbox.exec('echo $x; ls')).stdout).toBe('1\na\ngone\nold\n')
      expect(await sandbox.checkpoints()).toEqual([point])
      expect(existsSync(path.join(directory, 'b'))).toBe(false)
    }),
  )

  it(
    'brings back a session that is being created or deleted at that moment',
    inWorkspace(async ({ sandbox }) => {
      const other = await sandbox.createSession({ id: 'other' })
      await other.exec('own=1')
      const point = await sandbox.checkpoint()
      await other.startProcess("trap '' TERM; while :; do echo x >> a; done", { processId: 'stubborn' })
      const deleted = sandbox.deleteSession('other')
      await sandbox.rollback(point)
      const size = (await sandbox.exec('wc -c < a')).stdout
      await deleted
      expect((await sandbox.exec('wc -c < a')).stdout).toBe(size)
      expect((await (await sandbox.getSession('other'))?.exec('echo $own'))?.stdout).toBe('1\n')
    }),
  )

  it(
    'takes nothing but the state of the shells if no file has changed since the one before',
    inWorkspace(async (workplace) => {
      const { sandbox } = workplace
      const points = [await sandbox.checkpoint()]
      await sandbox.exec('echo changed > a; chmod 711 .')
      const before = await seen(workplace)
      for (const value of [1, 2, 3]) {
        await sandbox.exec(`value=${value}`)
        points.push(await sandbox.checkpoint())
      }
      await sandbox.exec('echo > new; rm new')
      points.push(await sandbox.checkpoint())
      expect((await sandbox.workspace.usage()).layers).toBe(2)
      await sandbox.exec('chmod 700 .')
      points.push(await sandbox.checkpoint())
      expect((await sandbox.workspace.usage()).layers).toBe(3)
      await sandbox.rollback(points[2] ?? '')
      expect((await sandbox.exec('echo $value')).stdout).toBe('2\n')
      expect(await seen(workplace)).toBe(before)
      await sandbox.rollback(points[0] ?? '')
      expect((await sandbox.exec('cat a')).stdout).toBe('a\n')
    }),
  )

  for (let round = 0; round < 5; round++)
    it(
      `leaves nothing if the sandbox is destroyed right after a rollback, round ${round}`,
      inWorkspace(async ({ sandbox }) => {
        await sandbox.exec('mkdir d; for i in {1..200}; do echo > d/$i; done')
        const point = await sandbox.checkpoint()
        await sandbox.exec('mkdir e; for i in {1..200}; do echo > e/$i; done')
        await sandbox.checkpoint()
        await sandbox.rollback(point)
      }),
    )

  it('makes no conflict of what a new directory hides', () =>
    withSandbox(
      async ({ sandbox, directory }) => {
        const real = path.join(directory, 'c')
        mkdirSync(real)
        writeFileSync(path.join(real, 'x'), 'x')
        for (const command of ['echo a > c/a', 'rm -rf c; mkdir c; echo new > c/new']) {
          await sandbox.exec(command)
          await sandbox.checkpoint()
        }
        rmSync(real, { recursive: true })
        mkdirSync(real)
        await sandbox.workspace.commit()
        expect(readdirSync(real)).toEqual(['new'])
      },
      { options: copyOnWrite },
    ))

  it('leaves nothing if its sandbox is destroyed meanwhile', () =>
    withSandbox(async ({ directory }) => {
      const stateDir = `${directory}-state`
      for (let round = 0; round < 10; round++) {
        const own = new Sandbox({ cwd: directory, stateDir, ...copyOnWrite })
        await own.exec('exec 5> open; for ((n = 0; n < 300; n++)); do echo $n > file-$n; done')
        // It may be made or refused.
        const making = Promise.allSettled([own.checkpoint()])
        // A file that is open for writing makes it copy, which takes longer.
        for (let turn = 0; turn < round; turn++) await new Promise(setImmediate)
        await own.destroy()
        await making
        expect(existsSync(path.join(stateDir, 'workspaces'))).toBe(false)
      }
    }))

  it('needs a workspace and a checkpoint', () =>
    withSandbox(async ({ sandbox, directory }) => {
      for (const call of [
        () => sandbox.checkpoint(),
        () => sandbox.checkpoints(),
        () => sandbox.rollback('1'),
      ])
        expect(await rejectionOf(call())).toMatchObject({ code: 'WORKSPACE_NOT_ENABLED' })
      const own = new Sandbox({ cwd: directory, stateDir: `${directory}-state`, ...copyOnWrite })
      try {
        for (const bad of [{ name: '' }, { name: 1 }, { unknown: true }, 'name'])
          expect(await rejectionOf(own.checkpoint(bad as never))).toBeInstanceOf(TypeError)
        for (const bad of [undefined, 1, {}, null])
          expect(await rejectionOf(own.rollback(bad as never))).toBeInstanceOf(TypeError)
        for (const id of ['', '0', '1', '-1', '1e3', '99999999999999999999', 'x'])
          for (const call of [() => own.rollback(id), () => own.deleteCheckpoint(id)])
            expect(await rejectionOf(call())).toMatchObject({ code: 'CHECKPOINT_NOT_FOUND' })
        await own.exec('echo new > new')
        const point = await own.checkpoint()
        await own.destroy()
        for (const call of [() => own.checkpoint(), () => own.checkpoints(), () => own.rollback(point)])
          expect(await rejectionOf(call())).toMatchObject({ code: 'SANDBOX_DESTROYED' })
      } finally {
        await own.destroy()
      }
    }))
})

/** What a checkpoint must not change in a shell. */
const SHELL = `echo $$ $! $x $PWD $OLDPWD; pwd -P; readlink /proc/self/cwd; [[ . -ef $PWD ]] && echo same
  wait $child; echo $?`

const entries = async (sandbox: Sandbox) => (await sandbox.workspace.usage()).files

describe('a checkpoint of idle shells', () => {
  for (const mode of modes)
    it(`copies nothing, and the shells go on, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox } = workplace
          prepare(workplace)
          const other = await sandbox.createSession({ id: 'other' })
          await other.exec('mkdir theirs; cd theirs; y=2')
          await sandbox.exec(`mkdir many; for i in {1..1000}; do echo $i > many/$i; done
            cd old; x=1; printf '1\n2\n3\n4\n' > lines; exec 5< lines; read -u 5; (exit 7) & child=$!; wait $child`)
          const before = [await sandbox.exec(SHELL), await other.exec('echo $$; pwd -P')]
          for (const line of [2, 3, 4]) {
            await other.exec('echo changed > changed')
            const number = await entries(sandbox)
            await sandbox.checkpoint()
            expect([await sandbox.exec(SHELL), await other.exec('echo $$; pwd -P')]).toEqual(
              before.map(({ stdout }) => expect.objectContaining({ stdout })),
            )
            expect((await sandbox.exec('read -u 5; echo $REPLY')).stdout).toBe(`${line}\n`)
            expect(await entries(sandbox)).toBe(number)
          }
          expect((await sandbox.workspace.usage()).layers).toBe(4)
          await other.exec('echo mine > mine')
          const program = await sandbox.startProcess('cat ../theirs/mine ../many/1000 > out')
          await program.waitForExit()
          expect((await sandbox.exec('cat out; cd ..; cat old/out')).stdout).toBe('mine\n1000\n'.repeat(2))
        },
        { options: copyOnWrite },
      ))

  /** What makes the files busy, what shows that it goes on, and the output of that. */
  const uses = {
    'a file open for writing': ['exec 5> log; echo one >&5', 'echo two >&5; cat log', 'one\ntwo\n'],
    'a named pipe': ['mkfifo pipe; exec 5<> pipe', 'echo text > pipe; read -u 5; echo $REPLY', 'text\n'],
    'a lock': ['exec 5< a; flock 5', 'flock -n a echo free || echo locked', 'locked\n'],
    'a directory': ['exec 5< .', 'cd /proc/self/fd/5 && ls', 'a\nfile\ngone\nold\n'],
    'a removed file': ['echo text > removed; exec 5< removed; rm removed', 'cat <&5', 'text\n'],
    'a removed directory': ['mkdir in; cd in; rmdir ../in', 'cd "$OLDPWD"; ls', 'a\nfile\ngone\nold\n'],
    'a job': [
      'sleep 1000 & kept=$!',
      '[ $kept = $! ] && [ $kept = "$(jobs -p)" ] && kill $kept && echo alive',
      'alive\n',
    ],
  }
  for (const [name, [use = '', then = '', output]] of Object.entries(uses))
    it.skipIf(name === 'a job' && !hasGroups)(
      `copies them beside ${name}, which goes on`,
      inWorkspace(async (workplace) => {
        const { sandbox } = workplace
        await sandbox.exec(`echo file > file; ${use}`)
        const number = await entries(sandbox)
        const point = await sandbox.checkpoint()
        expect(await entries(sandbox)).toBeGreaterThan(number)
        const before = await seen(workplace)
        expect((await sandbox.exec(then)).stdout).toBe(output)
        await sandbox.exec('rm file; exec 5>&-; wait')
        // An earlier fork of the shell has it for a moment.
        await until(
          async () => {
            const later = await entries(sandbox)
            await sandbox.checkpoint()
            return (await entries(sandbox)) === later || undefined
          },
          () => 'it is still in use',
        )
        await sandbox.rollback(point)
        expect(await seen(workplace)).toBe(before)
      }),
    )

  for (const storage of ['disk', 'memory'] as const)
    it(
      `leaves changes, discard, commit and rollback right, on ${storage}`,
      inWorkspace(
        async (workplace) => {
          const { sandbox, directory } = workplace
          const kept = []
          const steps = [
            'mkdir new; echo 1 > new/x; echo 1 > a',
            'mv new renamed; rm gone; echo 2 >> a; mkdir old/more',
            'mv old older || { cp -a old older; rm -r old; }; rm -r renamed; mkdir -m 700 renamed; echo 3 > renamed/y',
            'rm older/deep/c; echo back > gone; ln a linked; chmod 711 .',
          ]
          const changes = async () =>
            (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)
          for (const step of steps) {
            await sandbox.exec(step)
            const before = [await changes(), await seen(workplace)]
            const point = await sandbox.checkpoint()
            expect([await changes(), await seen(workplace)]).toEqual(before)
            kept.push({ point, before })
          }
          await sandbox.workspace.discard({ paths: ['gone'] })
          expect((await sandbox.exec('cat gone')).stdout).toBe('gone\n')
          for (const { point, before } of [...kept].reverse()) {
            await sandbox.exec('rm -rf ./*')
            await sandbox.checkpoint()
            await sandbox.rollback(point)
            expect([await changes(), await seen(workplace)]).toEqual(before)
          }
          await sandbox.rollback(kept[3]?.point ?? '')
          await sandbox.exec('echo last > last')
          const listing = 'find . -printf "%p %y %m %l\\n" | sort; cat a gone last linked renamed/y'
          const files = (await sandbox.exec(listing)).stdout
          await sandbox.workspace.commit()
          expect(await changes()).toEqual([])
          expect((await sandbox.exec(listing)).stdout).toBe(files)
          expect(execFileSync('sh', ['-c', listing], { cwd: directory }).toString()).toBe(files)
          await sandbox.exec('rm last')
          await sandbox.checkpoint()
          expect(await sandbox.workspace.commit()).toMatchObject({ applied: 1 })
          expect(existsSync(path.join(directory, 'last'))).toBe(false)
        },
        { workspace: { mode: 'copy-on-write', storage } },
      ),
    )

  it(
    'leaves deletions right when another directory takes the place of one',
    inWorkspace(async (workplace) => {
      const { sandbox, directory } = workplace
      await sandbox.exec('rm -r old; mkdir other')
      await sandbox.checkpoint()
      await sandbox.exec('mkdir old; echo new > old/new')
      await sandbox.checkpoint()
      await sandbox.exec('mkdir old/deep; rm a; mv -T other a')
      await sandbox.checkpoint()
      const changes = (await sandbox.workspace.changes()).map(({ type, path }) => `${type} ${path}`)
      expect(changes).toEqual(['replaced a', 'deleted old/b', 'deleted old/deep/c', 'created old/new'])
      const files = (await sandbox.exec('find . | sort')).stdout
      await sandbox.workspace.commit()
      expect(execFileSync('sh', ['-c', 'find . | sort'], { cwd: directory }).toString()).toBe(files)
    }),
  )

  it.skipIf(process.getuid?.() !== 0)(
    'leaves it a conflict that another program deletes a changed file',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo changed >> a; echo changed >> old/b; echo new > new')
      await sandbox.checkpoint()
      await sandbox.exec('echo again >> a; mv old/b moved')
      await sandbox.checkpoint()
      await sandbox.exec('echo again >> new')
      rmSync(path.join(directory, 'a'))
      rmSync(path.join(directory, 'old/b'))
      const refused = await rejectionOf(sandbox.workspace.commit())
      expect(refused).toMatchObject({ code: 'WORKSPACE_CONFLICT', paths: ['a', 'moved'] })
      await sandbox.workspace.commit({ force: true })
      expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('a\nchanged\nagain\n')
    }),
  )
})
