/** Builds compare times: after a discard, a commit, a rollback and a merge, they make what the sources are now. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type Builder, builders, describeBuilder, isHere } from '../helpers/builders.js'
import { inWorkspaceOver } from '../helpers/in-workspace.js'
import { temporary } from '../helpers/temporary.js'

for (const builder of builders) describeBuilder(builder)

describe('make', () => {
  const inProject = inWorkspaceOver(({ directory }) => {
    writeFileSync(path.join(directory, 'a.txt'), 'one\n')
    writeFileSync(path.join(directory, 'Makefile'), 'out: a.txt\n\tcat a.txt > out\n')
  })

  it(
    'builds what is there, however soon a discard follows a build',
    inProject(async ({ sandbox }) => {
      for (let round = 0; round < 20; round++) {
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.workspace.discard({ paths: ['a.txt'] })
        expect((await sandbox.exec('make -s && cat out; make -q && echo built')).stdout).toBe('one\nbuilt\n')
      }
    }),
  )

  it(
    'rebuilds nothing after a discard of everything, an undo, a rollback and in a fork',
    inProject(
      async ({ sandbox, directory }) => {
        execFileSync('make', ['-s'], { cwd: directory })
        const isBuilt = async (box = sandbox) => (await box.exec('make -q && cat out')).stdout
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.workspace.discard()
        expect(await isBuilt()).toBe('one\n')
        const point = await sandbox.checkpoint()
        await sandbox.exec('echo two > a.txt; make -s')
        const fork = await sandbox.fork()
        expect(await isBuilt(fork)).toBe('two\n')
        await fork?.destroy()
        await sandbox.undo()
        expect(await isBuilt()).toBe('one\n')
        await sandbox.exec('echo two > a.txt; make -s')
        await sandbox.rollback(point)
        expect(await isBuilt()).toBe('one\n')
        // An output that is older than its source in the real directory stays so.
        writeFileSync(path.join(directory, 'a.txt'), 'edited\n')
        await sandbox.exec('echo two > out')
        await sandbox.workspace.discard()
        expect((await sandbox.exec('make -s && cat out')).stdout).toBe('edited\n')
      },
      { workspace: { mode: 'copy-on-write', undoSteps: 5 } },
    ),
  )
})

/** Projects whose outputs git ignores. `OUT` is the directory of the outputs. */
const projects: (Pick<Builder, 'program' | 'build' | 'show' | 'files' | 'says'> & { sources: string[] })[] = [
  {
    program: 'make',
    build: 'make -s OUT=$OUT',
    show: 'cat $OUT/all',
    files: { Makefile: '$(OUT)/all: a.txt b.txt\n\tmkdir -p $(OUT)\n\tcat a.txt b.txt > $(OUT)/all\n' },
    says: (word) => `${word}\n`,
    sources: ['a.txt', 'b.txt'],
  },
  {
    program: 'cargo',
    build: 'CARGO_TARGET_DIR=$OUT cargo build --quiet --offline',
    show: '$OUT/debug/sample',
    files: {
      'Cargo.toml': '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n',
      'Cargo.lock': 'version = 4\n\n[[package]]\nname = "sample"\nversion = "0.1.0"\n',
      'src/main.rs': 'mod a;\nmod b;\nfn main() {\n    println!("{}\\n{}", a::WORD, b::WORD);\n}\n',
    },
    says: (word) => `pub const WORD: &str = "${word}";\n`,
    sources: ['src/a.rs', 'src/b.rs'],
  },
]

for (const { program, build, show, files, says, sources } of projects) {
  if (!isHere(program)) continue
  const [first = '', second = ''] = sources
  const inProject = inWorkspaceOver(
    ({ directory }) => {
      const texts = { ...files, [first]: says('one'), [second]: says('one'), '.gitignore': '/out\n' }
      for (const [name, text] of Object.entries(texts)) {
        const file = path.join(directory, name)
        mkdirSync(path.dirname(file), { recursive: true })
        writeFileSync(file, text)
        utimesSync(file, 1_000_000_000, 1_000_000_000)
      }
    },
    { workspace: { mode: 'copy-on-write', undoSteps: 9 } },
  )
  const write = (file: string, word: string) => `cat > ${file} <<'END'\n${says(word)}END\n`

  describe(`${program}, where git ignores the outputs`, () => {
    for (const where of ['in the workspace', 'elsewhere'])
      it(
        `builds what is there after an undo, a rollback and a discard of everything, with outputs ${where}`,
        inProject(async ({ sandbox, directory }) => {
          const out = where === 'elsewhere' ? temporary('builds-') : path.join(directory, 'out')
          const now = async () => {
            const { stdout, stderr } = await sandbox.exec(`export OUT=${out}; ${build} && ${show}`)
            return stdout || stderr
          }
          expect(await now()).toBe('one\none\n')
          const point = await sandbox.checkpoint()
          await sandbox.exec(write(first, 'two'))
          expect(await now()).toBe('two\none\n')
          const later = await sandbox.checkpoint()
          await sandbox.rollback(point)
          expect(await now()).toBe('one\none\n')
          await sandbox.rollback(later)
          expect(await now()).toBe('two\none\n')
          await sandbox.exec(`${write(second, 'three')}export OUT=${out}; ${build}`)
          await sandbox.undo()
          expect(await now()).toBe('two\none\n')
          await sandbox.exec(`rm ${second}`)
          await sandbox.undo()
          expect(await now()).toBe('two\none\n')
          await sandbox.workspace.discard()
          expect(await now()).toBe('one\none\n')
          expect(await sandbox.exec(`stat -c %Y ${Object.keys(files)[0]}`)).toMatchObject({
            stdout: '1000000000\n',
          })
        }),
        120_000,
      )

    it(
      'builds again after the undo of a build that came after an edit',
      inProject(async ({ sandbox, directory }) => {
        const out = path.join(directory, 'out')
        const now = `export OUT=${out}; ${build} && ${show}`
        await sandbox.exec(now)
        await sandbox.exec(write(first, 'two'))
        expect((await sandbox.exec(now)).stdout).toBe('two\none\n')
        await sandbox.undo()
        expect((await sandbox.exec(now)).stdout).toBe('two\none\n')
        // The output is older than its source in the real directory, and stays so.
        await sandbox.workspace.discard()
        expect((await sandbox.exec(now)).stdout).toBe('one\none\n')
      }),
      120_000,
    )

    it(
      'builds what a merge has brought in, although an output of the first side is newer',
      inProject(async ({ sandbox, directory }) => {
        const out = path.join(directory, 'out')
        const forks = await sandbox.fork(2)
        try {
          const [one, two] = forks
          await two?.exec(write(second, 'three'))
          const built = `export OUT=${out}; ${build} && ${show}`
          expect((await one?.exec(`${write(first, 'two')}${built}`))?.stdout).toBe('two\none\n')
          const { sandbox: merged } = await Sandbox.merge(forks)
          try {
            expect((await merged.exec(built)).stdout).toBe('two\nthree\n')
          } finally {
            await merged.destroy()
          }
        } finally {
          await Promise.all(forks.map((fork) => fork.destroy()))
        }
      }),
      120_000,
    )
  })
}
