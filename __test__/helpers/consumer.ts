/** Projects of other people: nacre is installed there from its packed tarball, outside this repository. */
import { execFile, execFileSync } from 'node:child_process'
import {
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))

export const bun = path.join(root, 'node_modules/.bin/bun')

export interface Consumer {
  directory: string
  /** Writes a file of the project. */
  write(name: string, text: string): void
  /** Runs a program in the project and gives its standard output. Rejects with both outputs when it fails. */
  run(program: string, ...args: string[]): Promise<string>
  /** Runs an executable of this repository's node_modules, which the project then has too. */
  runTool(tool: string, ...args: string[]): Promise<string>
  remove(): void
}

/**
 * Makes a project with nacre and what nacre depends on. `packages` are further ones from this repository's node_modules.
 *
 * npm would fetch the dependencies, so the tarball is unpacked instead, and they are links.
 */
export function createConsumer(packages: string[] = []): Consumer {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-consumer-'))
  const modules = path.join(directory, 'node_modules')
  const installed = path.join(modules, 'nacre')
  mkdirSync(installed, { recursive: true })
  const pack = ['pack', '--ignore-scripts', '--json', '--pack-destination', directory]
  const [{ filename, files }] = JSON.parse(
    execFileSync('npm', pack, { cwd: root, encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
  )
  execFileSync('tar', ['-xzf', path.join(directory, filename), '--strip-components=1', '-C', installed])
  rmSync(path.join(directory, filename))
  if (!files.some(({ path: name }: { path: string }) => name === 'native/release/nacre.node')) {
    // Tests run after a debug build; the package has the release build.
    cpSync(path.join(root, 'native/debug'), path.join(installed, 'native/release'), { recursive: true })
  }
  const { dependencies } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

  for (const name of [...Object.keys(dependencies), ...packages]) {
    const link = path.join(modules, name)
    mkdirSync(path.dirname(link), { recursive: true })
    if (!existsSync(link)) symlinkSync(path.join(root, 'node_modules', name), link)
  }
  const write = (name: string, text: string) => {
    const file = path.join(directory, name)
    mkdirSync(path.dirname(file), { recursive: true })
    writeFileSync(file, text)
  }
  write('package.json', JSON.stringify({ name: 'consumer', private: true, type: 'module' }))
  const { NACRE_NATIVE, NODE_OPTIONS, VITEST, ...env } = process.env
  const runIn = async (program: string, ...args: string[]) => {
    try {
      return (await run(program, args, { cwd: directory, env, maxBuffer: 1e8 })).stdout
    } catch (error) {
      const { message, stdout, stderr } = error as Error & { stdout?: string; stderr?: string }
      throw new Error(`${message}\n${stdout ?? ''}\n${stderr ?? ''}`)
    }
  }
  return {
    directory,
    write,
    run: runIn,
    runTool: (tool, ...args) => runIn('node', path.join(root, 'node_modules', tool), ...args),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}
