/** Small projects of programs that compare times, and what they must build after a discard and after a commit. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { inWorkspaceOver } from './in-workspace.js'

const TSC = path.join(path.dirname(path.dirname(__dirname)), 'node_modules/.bin/tsc')

/** A program that builds, a small project of it with three sources, and the command that shows what was built. */
export interface Builder {
  program: string
  build: string
  show: string
  files: Record<string, string>
  /** Contents of a source that shows a word. */
  says: (word: string) => string
  /** Two sources of which one is alone in its directory. */
  sources: [string, string]
}

export const builders: Builder[] = [
  {
    program: 'make',
    build: 'make -s',
    show: 'cat out',
    files: { Makefile: 'out: top.txt src/inner.txt\n\tcat top.txt src/inner.txt > out\n' },
    says: (word) => `${word}\n`,
    sources: ['top.txt', 'src/inner.txt'],
  },
  {
    program: 'ninja',
    build: 'ninja --quiet',
    show: 'cat out',
    files: {
      'build.ninja': 'rule join\n  command = cat $in > $out\nbuild out: join top.txt src/inner.txt\n',
    },
    says: (word) => `${word}\n`,
    sources: ['top.txt', 'src/inner.txt'],
  },
  {
    program: 'cargo',
    build: 'cargo build --quiet --offline',
    show: 'target/debug/sample',
    files: {
      'Cargo.toml': '[package]\nname = "sample"\nversion = "0.1.0"\nedition = "2021"\n',
      'src/main.rs':
        'mod inner;\nmod top;\nfn main() {\n    println!("{}\\n{}", top::WORD, inner::below::WORD);\n}\n',
      'src/inner/mod.rs': 'pub mod below;\n',
    },
    says: (word) => `pub const WORD: &str = "${word}";\n`,
    sources: ['src/top.rs', 'src/inner/below.rs'],
  },
]

export const typescript: Builder = {
  program: TSC,
  build: `${TSC} -b`,
  show: 'node out/main.js',
  files: {
    'package.json': '{ "type": "module" }\n',
    'tsconfig.json':
      '{ "compilerOptions": { "composite": true, "module": "nodenext", "rootDir": ".", "outDir": "out", "types": [] }, "include": ["*.ts", "inner/*.ts"] }\n',
    'main.ts':
      "import { word } from './top.js'\nimport { word as below } from './inner/below.js'\nconsole.log(`${word}\\n${below}`)\n",
  },
  says: (word) => `export const word: string = '${word}'\n`,
  sources: ['top.ts', 'inner/below.ts'],
}

/** Whether a program is on this machine. */
export const isHere = (program: string) =>
  (process.env.PATH ?? '').split(':').some((directory) => existsSync(path.resolve(directory, program)))

/** The tests of a builder. None if it is not on this machine. */
export function describeBuilder({ program, build, show, files, says, sources }: Builder): void {
  if (!isHere(program)) return
  const [top, below] = sources
  const inProject = inWorkspaceOver(({ directory }) => {
    const texts = { ...files, [top]: says('one'), [below]: says('one') }
    for (const [name, text] of Object.entries(texts)) {
      const file = path.join(directory, name)
      mkdirSync(path.dirname(file), { recursive: true })
      writeFileSync(file, text)
      utimesSync(file, 1_000_000_000, 1_000_000_000)
    }
  })
  const built = `${build} && ${show}`
  const write = (file: string, word: string) => `cat > ${file} <<'END'\n${says(word)}END\n`

  describe(path.basename(program), () => {
    it(
      'builds what is there after a discard of a file, a directory and a deletion',
      inProject(async ({ sandbox }) => {
        const now = async () => {
          const { stdout, stderr } = await sandbox.exec(built)
          return stdout || stderr
        }
        expect(await now()).toBe('one\none\n')
        const inner = path.dirname(below)
        for (const [change, then, discarded, expected] of [
          [write(top, 'two'), 'true', top, 'two\none\n'],
          [write(top, 'two'), `rm ${top}`, top, 'two\none\n'],
          [write(below, 'two'), 'true', inner, 'one\ntwo\n'],
          [write(below, 'two'), `rm -r ${inner}`, inner, 'one\ntwo\n'],
          [
            `cp -r ${inner} new; rm -r ${inner}; mv new ${inner}; ${write(below, 'two')}`,
            'true',
            inner,
            'one\ntwo\n',
          ],
        ] as const) {
          await sandbox.exec(change)
          expect(await now()).toBe(expected)
          await sandbox.exec(then)
          await sandbox.workspace.discard({ paths: [discarded] })
          expect(await now()).toBe('one\none\n')
        }
      }),
      120_000,
    )

    it(
      'builds what was committed, although the real directory was built meanwhile',
      inProject(async ({ sandbox, directory }) => {
        const real = () => execFileSync('bash', ['-c', built], { cwd: directory, encoding: 'utf8' })
        await sandbox.exec(write(top, 'two'))
        expect(real()).toBe('one\none\n')
        await sandbox.workspace.commit({ paths: [top] })
        expect(real()).toBe('two\none\n')
        await sandbox.exec(write(below, 'three'))
        await sandbox.workspace.commit()
        expect(real()).toBe('two\nthree\n')
        expect(statSync(path.join(directory, below)).mtimeMs).toBeLessThanOrEqual(Date.now())
      }),
      120_000,
    )
  })
}
