/** Executables of `bun build --compile` that have nacre in them. */
import { execFile } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))

export interface Executable {
  /** Where it was built. That is gone. */
  builtIn: string
  /** Its temporary directory. */
  temporary: string
  /** Runs it as in a bare image: in /, without a variable of the test's. `wrapper` is put in front of it. */
  run(wrapper?: string[]): Promise<{ stdout: string; stderr: string }>
  remove(): void
}

/** Builds a program in a directory where nacre is installed as a package is, and removes that directory. */
export async function buildExecutable(program: string): Promise<Executable> {
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-compiled-'))
  const app = path.join(base, 'app')
  const binary = path.join(base, 'binary')
  const temporary = path.join(base, 'tmp')
  const installed = path.join(app, 'node_modules/nacre')
  mkdirSync(installed, { recursive: true })
  mkdirSync(temporary)
  for (const name of ['package.json', 'dist'])
    cpSync(path.join(root, name), path.join(installed, name), { recursive: true })
  // The package has the release build; which one it is does not matter here.
  const build = process.env.NACRE_NATIVE === 'debug' ? 'debug' : 'release'
  cpSync(path.join(root, 'native', build), path.join(installed, 'native/release'), { recursive: true })
  writeFileSync(path.join(app, 'main.js'), program)
  const bun = path.join(root, 'node_modules/.bin/bun')
  await run(bun, ['build', '--compile', '--minify', 'main.js', '--outfile', binary], { cwd: app })
  rmSync(app, { recursive: true })
  const env = { PATH: process.env.PATH, HOME: '/', TMPDIR: temporary }
  return {
    builtIn: app,
    temporary,
    run: (wrapper = []) => {
      const [file = binary, ...args] = [...wrapper, binary]
      return run(file, args, { cwd: '/', env })
    },
    remove: () => rmSync(base, { recursive: true, force: true }),
  }
}
