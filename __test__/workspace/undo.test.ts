/** Undo: the last commands are taken back, with their files and the state of the shells. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox, type SandboxOptions } from 'nacre'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { type Workplace, withSandbox } from '../helpers/invariants.js'
import { modes, plain, withSandboxIn } from '../helpers/modes.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'

const withSteps = (undoSteps: number): SandboxOptions => ({
  workspace: { mode: 'copy-on-write', undoSteps },
})

const inWorkspace = inWorkspaceOver(prepare, withSteps(10))

function prepare({ directory }: Workplace): void {
  mkdirSync(path.join(directory, 'old/deep'), { recursive: true })
  for (const name of ['a', 'old/b', 'old/deep/c']) writeFileSync(path.join(directory, name), `${name}\n`)
}

/** Resolves when a command has created a file beside the workspace. A file call could cost the command its step. */
const begun = ({ directory }: Workplace) =>
  until(
    () => existsSync(path.join(directory, '../begun')) || undefined,
    () => 'the command does not begin',
  )

/** More commands than layers are kept apart. */
const MANY = 70

const NONE = { code: 'CHECKPOINT_NOT_FOUND', message: expect.stringContaining('undoSteps') }

describe('undo', () => {
  for (const mode of [...modes, ...plain])
    it(`takes back files, variables and the directory, one command after the other, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          const { sandbox } = workplace
          prepare(workplace)
          const look = 'pwd; echo "$value"; find . -type f | sort; cat a'
          const commands = [
            'value=1; echo one > a; f() { echo f; }',
            'cd old; value=2',
            'rm -rf ./* ../a; value=3',
            'cd ..; rm -r old; echo new > new; exit 7',
          ]
          const before: string[] = []
          for (const command of commands) {
            before.push((await sandbox.exec(look)).stdout)
            await sandbox.exec(command)
          }
          for (const command of commands.reverse()) {
            const undone = { command, endedProcesses: [], endedSessions: [], missing: [] }
            expect(await sandbox.undo()).toEqual(undone)
            expect((await sandbox.exec(look)).stdout).toBe(before.pop())
            // The two looks.
            for (const _ of [1, 2]) expect(await sandbox.undo()).toMatchObject({ command: look })
          }
          expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
          expect((await sandbox.exec('type f 2> /dev/null || echo none; cat a')).stdout).toBe('none\na\n')
          expect(await sandbox.checkpoints()).toEqual([])
        },
        { options: withSteps(20) },
      ))

  it(
    'brings back the directory that a shell has removed beneath itself',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('cd old/deep; x=1')
      await sandbox.exec('rm -rf ../../*; x=2')
      // Until it leaves that directory, there are no steps.
      await sandbox.exec('x=3')
      expect((await sandbox.undo()).command).toBe('rm -rf ../../*; x=2')
      expect((await sandbox.exec('pwd; cat c; echo $x')).stdout).toBe(
        `${directory}/old/deep\nold/deep/c\n1\n`,
      )
    }),
  )

  it(
    'brings back a shell that has exited',
    inWorkspace(
      async ({ sandbox }) => {
        await sandbox.exec('x=1; cd old')
        for (const command of ['rm b; exit 3', 'true'])
          expect(await rejectionOf(sandbox.exec(command))).toMatchObject({ code: 'SESSION_TERMINATED' })
        expect((await sandbox.undo()).command).toBe('rm b; exit 3')
        expect((await sandbox.exec('echo $x; cat b')).stdout).toBe('1\nold/b\n')
      },
      { ...withSteps(10), surviveExit: false },
    ),
  )

  it(
    'goes on from the moment that it went back to',
    inWorkspace(async ({ sandbox }) => {
      for (const step of [1, 2, 3]) await sandbox.exec(`echo ${step} >> a`)
      await sandbox.undo()
      await sandbox.undo()
      await sandbox.exec('echo other >> a')
      expect(await sandbox.undo()).toMatchObject({ command: 'echo other >> a' })
      expect(await sandbox.undo()).toMatchObject({ command: 'echo 1 >> a' })
      expect((await sandbox.exec('cat a')).stdout).toBe('a\n')
    }),
  )

  it(
    'takes back commands of exec, execStream and $, not file calls, processes and variables',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.files.write('written', '1')
      await sandbox.$`echo ${'two words'} > a`
      for await (const _ of sandbox.execStream('echo streamed >> a'));
      await sandbox.setEnvVars({ SET: 'yes' })
      await (await sandbox.startProcess('echo process >> a')).waitForExit()
      await sandbox.files.write('written', '2')
      expect((await sandbox.undo()).command).toBe('echo streamed >> a')
      expect((await sandbox.exec('cat a written; echo "$SET"')).stdout).toBe('two words\n1\n')
      await sandbox.undo()
      expect((await sandbox.undo()).command).toContain('two words')
      expect((await sandbox.exec('cat a')).stdout).toBe('a\n')
      expect(await sandbox.undo()).toBeDefined()
      expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
    }),
  )

  it(
    'keeps the order of commands that are not awaited',
    inWorkspace(async ({ sandbox }) => {
      const all = [1, 2, 3].map((step) => sandbox.exec(`cat a; echo ${step} > a`))
      expect((await Promise.all(all)).map(({ stdout }) => stdout)).toEqual(['a\n', '1\n', '2\n'])
      for (const step of [3, 2, 1]) {
        expect((await sandbox.undo()).command).toBe(`cat a; echo ${step} > a`)
        expect(String(await sandbox.files.read('a'))).toBe(step === 1 ? 'a\n' : `${step - 1}\n`)
      }
    }),
  )

  it(
    'has no step for a command that was cancelled before it ran',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('true')
      const running = sandbox.exec('echo 1 > a; until [ -e go ]; do sleep 0.01; done')
      const cancel = new AbortController()
      const cancelled = sandbox.exec('echo never > a', { signal: cancel.signal }).catch(() => {})
      const later = sandbox.exec('echo 2 > a')
      cancel.abort()
      await cancelled
      await sandbox.files.write('go', '')
      await Promise.all([running, later])
      expect((await sandbox.undo()).command).toBe('echo 2 > a')
      expect(String(await sandbox.files.read('a'))).toBe('1\n')
      expect((await sandbox.undo()).command).toContain('until')
    }),
  )

  it(
    'takes back a running command, which ends',
    inWorkspace(async (workplace) => {
      const { sandbox } = workplace
      await sandbox.exec('echo before > a')
      const running = rejectionOf(sandbox.exec('echo running > a; touch ../begun; sleep 1000'))
      await begun(workplace)
      expect((await sandbox.undo()).command).toBe('echo running > a; touch ../begun; sleep 1000')
      expect(await running).toMatchObject({ code: 'ROLLED_BACK' })
      expect((await sandbox.exec('cat a')).stdout).toBe('before\n')
    }),
  )

  it(
    'skips a command that runs beside a process, and takes it back with the one before',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('echo 1 > a')
      await sandbox.startProcess('sleep 1000', { processId: 'busy' })
      await sandbox.exec('echo 2 > a')
      await sandbox.exec('(setsid sleep 1000 &); echo 3 > a')
      expect(await sandbox.undo()).toEqual({
        command: 'echo 1 > a',
        endedProcesses: ['busy'],
        endedSessions: [],
        missing: [],
      })
      expect((await sandbox.exec('cat a')).stdout).toBe('a\n')
    }),
  )

  it(
    'works with sessions that run commands at the same time',
    inWorkspace(async (workplace) => {
      const { sandbox } = workplace
      const other = await sandbox.createSession({ id: 'other' })
      for (let round = 0; round < 20; round++)
        await Promise.all([
          sandbox.exec(`x=${round}; echo ${round} >> one`),
          other.exec(`echo ${round} >> two`),
        ])
      // One step precedes both, or one of them has its own, or none has one: a step waits for nothing.
      const { command } = await sandbox.undo()
      const round = Number(/echo (\d+) >>/.exec(command)?.[1])
      expect(round).toBeGreaterThan(0)
      for (const file of ['one', 'two']) {
        const { stdout } = await sandbox.exec(`tail -n 1 ${file}`)
        const before = [`${round - 1}\n`]
        expect(command.includes(`>> ${file}`) ? before : [...before, `${round}\n`]).toContain(stdout)
      }
      const { stdout: last } = await sandbox.exec('echo $(tail -n 1 one) $x')
      expect(last).toMatch(/^(\d+) \1\n$/)
      // Beside a command, there is no step. It ends with the other one.
      const running = rejectionOf(other.exec('echo running > a; touch ../begun; sleep 1000'))
      await begun(workplace)
      await sandbox.exec('echo beside > a')
      expect((await sandbox.undo()).command).toBe('echo running > a; touch ../begun; sleep 1000')
      expect(await running).toMatchObject({ code: 'ROLLED_BACK' })
      expect((await sandbox.exec('cat a')).stdout).toBe('a\n')
    }),
  )

  it(
    'ends with a commit, and stays with a discard',
    inWorkspace(async ({ sandbox, directory }) => {
      await sandbox.exec('echo 1 > a')
      await sandbox.workspace.commit()
      expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
      await sandbox.exec('echo 2 > a')
      await sandbox.workspace.discard()
      await sandbox.undo()
      expect((await sandbox.exec('cat a')).stdout).toBe('1\n')
      expect(readFileSync(path.join(directory, 'a'), 'utf8')).toBe('1\n')
    }),
  )

  it(
    'loses the steps after a moment that a rollback goes back to',
    inWorkspace(async ({ sandbox }) => {
      await sandbox.exec('echo 1 > a')
      const point = await sandbox.checkpoint()
      await sandbox.exec('echo 2 > a')
      const later = await sandbox.checkpoint()
      await sandbox.rollback(point)
      expect((await sandbox.undo()).command).toBe('echo 1 > a')
      await sandbox.rollback(later)
      expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
      expect((await sandbox.checkpoints()).map(({ id }) => id)).toEqual([point.id, later.id])
      expect((await sandbox.exec('cat a')).stdout).toBe('2\n')
    }),
  )

  it(
    'fails no command without space for a step',
    inWorkspace(
      async ({ sandbox }) => {
        await sandbox.exec('echo 1 > a')
        const full = await sandbox.exec('cat /dev/zero > big 2> /dev/null; echo $?')
        expect(full.stdout).toBe('1\n')
        expect((await sandbox.exec('x=kept; echo $x')).stdout).toBe('kept\n')
        expect((await sandbox.exec('rm big; echo $x')).stdout).toBe('kept\n')
        await sandbox.undo()
        expect((await sandbox.exec('cat a')).stdout).toMatch(/^(a|1)\n$/)
      },
      { workspace: { mode: 'copy-on-write', storage: 'memory', maxBytes: 4 << 20, undoSteps: 5 } },
    ),
  )

  for (const mode of modes)
    it(`lets everything be committed that was changed again and again, ${mode.name}`, () =>
      withSandboxIn(
        mode,
        async (workplace) => {
          prepare(workplace)
          const { sandbox, directory } = workplace
          for (let round = 0; round < MANY; round++) {
            const inner = `made/${round % 3}`
            await sandbox.exec(
              `mkdir -p ${inner}; echo ${round} | tee -a a made/log ${inner}/file > ${inner}/only-${round}`,
            )
            if (round % 10 === 5) await sandbox.exec('mv made/log log; mv log made/log')
          }
          expect((await sandbox.workspace.usage()).layers).toBeLessThan(MANY / 2)
          await sandbox.workspace.commit()
          const lines = Array.from({ length: MANY }, (_, round) => `${round}\n`)
          const real = (name: string) => readFileSync(path.join(directory, name), 'utf8')
          expect(real('a')).toBe(`a\n${lines.join('')}`)
          expect(real('made/log')).toBe(lines.join(''))
          expect(real('made/1/file')).toBe(lines.filter((_, round) => round % 3 === 1).join(''))
          expect(real('made/1/only-1')).toBe('1\n')
          expect(await sandbox.workspace.changes()).toEqual([])
        },
        { options: withSteps(3) },
      ))

  it('needs undoSteps, which has limits', () =>
    withSandbox(
      async (workplace) => {
        prepare(workplace)
        const { sandbox, directory, stateDir } = workplace
        await sandbox.exec('echo 1 > a')
        expect(await rejectionOf(sandbox.undo())).toMatchObject(NONE)
        for (const undoSteps of [-1, 101, 1.5, '5' as unknown as number])
          expect(() => new Sandbox({ cwd: directory, stateDir, ...withSteps(undoSteps) })).toThrow(
            /workspace\.undoSteps must be/,
          )
      },
      { options: { workspace: 'copy-on-write' } },
    ))

  it('needs a workspace', () =>
    withSandbox(async ({ sandbox }) => {
      expect(await rejectionOf(sandbox.undo())).toMatchObject({ code: 'WORKSPACE_NOT_ENABLED' })
    }))
})
