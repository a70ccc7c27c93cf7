/** An addon that cannot be loaded is reported with its true cause, a code and what to do. */
import { execFileSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { type Attempt, examine, explain, type Machine } from '../lib/addon-failure.js'

const root = path.dirname(__dirname)
const realAddon = path.join(root, 'native', 'debug', 'nacre.node')
const platformPackage = `nacre-linux-${process.arch}-gnu`

let installed: string

/** An installed nacre without its addon. */
beforeEach(() => {
  installed = mkdtempSync(path.join(os.tmpdir(), 'nacre-native-'))
  for (const name of ['dist', 'package.json']) {
    cpSync(path.join(root, name), path.join(installed, name), { recursive: true })
  }
})

afterEach(() => rmSync(installed, { recursive: true }))

function putAddon(content: string | Uint8Array): string {
  const file = path.join(installed, 'native', 'release', 'nacre.node')
  mkdirSync(path.dirname(file), { recursive: true })
  writeFileSync(file, content)
  return file
}

function putPlatformPackage(): string {
  const directory = path.join(installed, 'node_modules', platformPackage)
  mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify({ main: 'nacre.node' }))
  return directory
}

/** What a first command of this nacre gives: the output, or the error. */
function firstExec(): { stdout?: string; name?: string; code?: string; message: string; cause?: string } {
  const program = `const { Sandbox } = require('./dist/index.js'); new Sandbox().exec('echo ran').then(
    ({ stdout }) => console.log(JSON.stringify({ stdout })),
    ({ name, code, message, cause }) => console.log(JSON.stringify({ name, code, message, cause: cause?.message })))`
  const { NACRE_NATIVE, ...env } = process.env
  const output = execFileSync(process.execPath, ['-e', program], { cwd: installed, encoding: 'utf8', env })
  return JSON.parse(output)
}

/** The same bytes for a processor that this is not. */
function forOtherProcessor(elf: Buffer): Buffer {
  const bytes = Buffer.from(elf)
  bytes.writeUInt16LE(process.arch === 'arm64' ? 62 : 183, 18)
  return bytes
}

describe('the addon', () => {
  it('of a platform package is used when the package itself has none', () => {
    const directory = putPlatformPackage()
    for (const name of ['nacre.node', 'nacre-supervisor']) {
      symlinkSync(path.join(path.dirname(realAddon), name), path.join(directory, name))
    }
    expect(firstExec()).toEqual({ stdout: 'ran\n' })
  })

  it('that is not installed is ADDON_MISSING, with the places that were searched', () => {
    const { name, code, message, cause } = firstExec()
    expect([name, code]).toEqual(['AddonError', 'ADDON_MISSING'])
    expect(message).toBe(
      `nacre's native addon is not installed (looked for ${installed}/native/release/nacre.node, ` +
        `${platformPackage}, nacre-linux-${process.arch}-musl); run \`npm run build\` in ${installed}`,
    )
    expect(cause).toMatch(/^Cannot find module/)
  })

  it('is ADDON_MISSING also where a platform package has lost the file', () => {
    putPlatformPackage()
    expect(firstExec().code).toBe('ADDON_MISSING')
  })

  it('that is no ELF file is ADDON_NOT_LOADABLE, with the message of the loader', () => {
    const file = putAddon('a page of a proxy, and no addon at all')
    const { code, message, cause } = firstExec()
    expect(code).toBe('ADDON_NOT_LOADABLE')
    expect(message).toMatch(
      /^nacre's native addon .*nacre\.node cannot be loaded \(.+\); run `npm run build`/,
    )
    expect(message).toContain(file)
    expect(message).toContain(cause)
  })

  it('that is an empty file is ADDON_NOT_LOADABLE', () => {
    putAddon('')
    expect(firstExec().code).toBe('ADDON_NOT_LOADABLE')
  })

  it('of another processor is ADDON_WRONG_ARCHITECTURE', () => {
    putAddon(forOtherProcessor(readFileSync(realAddon)))
    const { code, message } = firstExec()
    expect(code).toBe('ADDON_WRONG_ARCHITECTURE')
    const [built, here] = process.arch === 'arm64' ? ['x64', 'arm64'] : ['arm64', process.arch]
    expect(message).toContain(
      `is built for ${built}, and this program runs on ${here}; run \`npm run build\``,
    )
  })

  it('that needs musl is ADDON_WRONG_LIBC where the program uses glibc', () => {
    const library = path.join(installed, 'libc.musl-test.so.1')
    const source = path.join(installed, 'empty.c')
    writeFileSync(source, 'int empty;')
    const compile = (...args: string[]) => execFileSync('cc', ['-shared', '-nostdlib', ...args, source])
    compile('-Wl,-soname,libc.musl-test.so.1', '-o', library)
    const addon = path.join(installed, 'addon.so')
    execFileSync('cc', ['-shared', '-nostdlib', '-Wl,--no-as-needed', '-o', addon, source, library])
    putAddon(readFileSync(addon))
    rmSync(library)
    const { code, message } = firstExec()
    expect(code).toBe('ADDON_WRONG_LIBC')
    expect(message).toContain('is built for musl, and this program uses glibc; run `npm run build`')
  })
})

describe('the explanation of a failure', () => {
  const machine: Machine = { platform: 'linux', arch: 'x64', libc: 'glibc', node: '24.1.0' }
  const missing: Attempt = { candidate: 'nacre-linux-x64-gnu', error: new Error('none') }
  const code = (changes: Partial<Machine>, attempts = [missing]) =>
    explain({ ...machine, ...changes }, attempts, 'reinstall nacre').code
  const found = (arch: string, libc?: 'glibc' | 'musl'): Attempt => ({
    candidate: 'x',
    error: new Error('refused'),
    found: { file: '/x/nacre.node', arch, libc },
  })

  it('names another operating system before anything else', () => {
    const { message } = explain({ ...machine, platform: 'darwin', node: '18.0.0' }, [missing], 'x')
    expect(message).toBe('nacre runs on Linux only, and this is darwin: use a container or a virtual machine')
    expect(code({ platform: 'win32' }, [found('x64')])).toBe('ADDON_UNSUPPORTED_PLATFORM')
  })

  it('names a Node.js older than 20.19, and no version of Bun', () => {
    for (const node of ['18.20.8', '20.18.3']) expect(code({ node })).toBe('ADDON_UNSUPPORTED_NODE')
    for (const node of ['20.19.0', '22.0.0', undefined]) expect(code({ node })).toBe('ADDON_MISSING')
  })

  it('reports the file that fits this machine best', () => {
    const fitting = found('x64', 'glibc')
    const [musl, arm] = [found('x64', 'musl'), found('arm64', 'glibc')]
    expect(code({}, [missing, arm, musl, fitting])).toBe('ADDON_NOT_LOADABLE')
    expect(code({}, [missing, arm, musl])).toBe('ADDON_WRONG_LIBC')
    expect(code({}, [missing, arm])).toBe('ADDON_WRONG_ARCHITECTURE')
    expect(code({ libc: undefined }, [musl])).toBe('ADDON_NOT_LOADABLE')
  })

  it('knows what the real addon is built for', () => {
    expect(examine(realAddon)).toEqual({ arch: process.arch, libc: 'glibc' })
    expect(examine(__filename)).toEqual({ arch: undefined, libc: undefined })
    expect(examine('/does/not/exist')).toEqual({ arch: undefined, libc: undefined })
  })
})
