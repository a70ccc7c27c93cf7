/** Executables of `bun build --compile` that contain nacre. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { stageMain } from '../../scripts/packages/stage.mjs'
import { hostTarget, packageName } from '../../scripts/packages/targets.mjs'
import { putPlatformPackage } from './consumer.js'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))

export interface Executable {
  /** The directory where it was built, which no longer exists. */
  builtIn: string
  /** Its temporary directory. */
  temporary: string
  /** Runs it as in a bare image: in /, without variables of the test. Its command line is appended to `wrapper`. */
  run(wrapper?: string[]): Promise<{ stdout: string; stderr: string }>
  remove(): void
}

/** Builds a program in a directory where nacre is installed as a package, and removes that directory. */
export async function buildExecutable(program: string): Promise<Executable> {
  const base = mkdtempSync(path.join(os.tmpdir(), 'nacre-compiled-'))
  const app = path.join(base, 'app')
  const binary = path.join(base, 'binary')
  const temporary = path.join(base, 'tmp')
  mkdirSync(temporary, { recursive: true })
  const modules = path.join(app, 'node_modules')
  await stageMain(root, path.join(modules, 'nacre'))
  putPlatformPackage(path.join(modules, packageName(hostTarget())))
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
