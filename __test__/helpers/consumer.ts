/** A project with nacre installed, like a user's: the packages of `npm run build:packages`, unpacked into node_modules. */
import { execFile } from 'node:child_process'
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
import { VERSION } from '../../lib/addon/platforms.js'
import { stageCompanion, stageMain } from '../../scripts/packages/stage.mjs'
import { hostTarget, packageName } from '../../scripts/packages/targets.mjs'

const run = promisify(execFile)
const root = path.dirname(path.dirname(__dirname))

export const bun = path.join(root, 'node_modules/.bin/bun')

export interface Consumer {
  directory: string
  write(name: string, text: string): void
  /** Runs a program in the project; returns its standard output. */
  run(program: string, ...args: string[]): Promise<string>
  /** Does the same for a program in the node_modules/.bin of this repository. */
  runTool(tool: string, ...args: string[]): Promise<string>
  remove(): void
}

/**
 * `packages` are additional packages: companions of nacre like `@nacre/server` with their dependencies, and others from this
 * repository's node_modules, as links.
 */
export async function createConsumer(packages: string[] = []): Promise<Consumer> {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-consumer-'))
  const modules = path.join(directory, 'node_modules')
  await stageMain(root, path.join(modules, 'nacre'))
  putPlatformPackage(path.join(modules, packageName(hostTarget())))
  const linked: string[] = []
  for (const name of packages) {
    const [, companion] = /^@nacre\/(.*)/.exec(name) ?? []
    if (companion === undefined) linked.push(name)
    else {
      stageCompanion(root, companion, path.join(modules, name))
      const { dependencies = {} } = JSON.parse(readFileSync(path.join(modules, name, 'package.json'), 'utf8'))
      linked.push(...Object.keys(dependencies))
    }
  }
  for (const name of linked) {
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
    runTool: (tool, ...args) => runIn(path.join(root, 'node_modules/.bin', tool), ...args),
    remove: () => rmSync(directory, { recursive: true, force: true }),
  }
}

/** Tests run after a debug build; the published package contains the release build. */
export function putPlatformPackage(directory: string): void {
  cpSync(path.join(root, 'native/debug'), directory, { recursive: true })
  const manifest = { name: packageName(hostTarget()), version: VERSION }
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify(manifest))
}
