/** An addon that cannot be used is reported with its true cause, a code and a remedy. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  copyFileSync,
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { examine } from '../lib/addon/examine.js'
import { absence, loadFailure, machineFailure } from '../lib/addon/failure.js'
import type { Machine } from '../lib/addon/machine.js'
import { PLATFORMS, platformsFor, VERSION } from '../lib/addon/platforms.js'
import { mainManifest } from '../scripts/packages/manifest.mjs'

const root = path.dirname(__dirname)
const bun = path.join(root, 'node_modules/.bin/bun')
const native = path.join(root, 'native', 'debug')
const realAddon = path.join(native, 'nacre.node')
const fitting = `@nacre/linux-${process.arch}-gnu`
const otherLibc = `@nacre/linux-${process.arch}-musl`
const otherArch = `@nacre/linux-${process.arch === 'arm64' ? 'x64' : 'arm64'}-gnu`
const rootManifest = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))

/** A project with an installed nacre. */
let project: string
let modules: string
let installed: string

beforeAll(() => {
  project = mkdtempSync(path.join(os.tmpdir(), 'nacre-addon-'))
  modules = path.join(project, 'node_modules')
  installed = path.join(modules, 'nacre')
  writeFileSync(path.join(project, 'package.json'), '{}')
  cpSync(path.join(root, 'dist'), path.join(installed, 'dist'), { recursive: true })
})

afterAll(() => rmSync(project, { recursive: true }))

/** Without any platform package, or what else the test before has put there. */
beforeEach(() => {
  for (const name of readdirSync(modules).filter((name) => name !== 'nacre'))
    rmSync(path.join(modules, name), { recursive: true })
  rmSync(path.join(installed, 'Cargo.toml'), { force: true })
  writeFileSync(path.join(installed, 'package.json'), JSON.stringify(mainManifest(rootManifest)))
})

/** A platform package with copies of the real files; `links` saves the copying where nothing is changed. */
function putPackage(name: string, { version = VERSION, links = false } = {}): string {
  const directory = path.join(modules, name)
  mkdirSync(directory, { recursive: true })
  writeFileSync(path.join(directory, 'package.json'), JSON.stringify({ name, version }))
  for (const file of ['nacre.node', 'nacre-supervisor']) {
    const put = links ? symlinkSync : copyFileSync
    put(path.join(native, file), path.join(directory, file))
  }
  return directory
}

interface Outcome {
  stdout?: string
  name?: string
  code?: string
  message: string
  cause?: string
}

/** What a first command of this nacre gives: the output, or the error. */
function firstExec({
  program = process.execPath,
  env = {},
  wrapper = [] as string[],
  flags = [] as string[],
} = {}): Outcome {
  const file = path.join(project, 'main.mjs')
  const text = `import { Sandbox } from 'nacre'; new Sandbox().exec('echo ran').then(
    ({ stdout }) => console.log(JSON.stringify({ stdout })),
    ({ name, code, message, cause }) => console.log(JSON.stringify({ name, code, message, cause: cause?.message })))`
  writeFileSync(file, text)
  const { NACRE_NATIVE, ...own } = process.env
  const [first = program, ...rest] = [...wrapper, program, ...flags, file]
  const output = execFileSync(first, rest, { cwd: project, encoding: 'utf8', env: { ...own, ...env } })
  return JSON.parse(output)
}

/** The same bytes for a processor that this is not. */
function forOtherProcessor(elf: Buffer): Buffer {
  const bytes = Buffer.from(elf)
  bytes.writeUInt16LE(process.arch === 'arm64' ? 62 : 183, 18)
  return bytes
}

describe('the platform package of this process', () => {
  for (const [runtime, program] of [
    ['Node', 'node'],
    ['Bun', bun],
  ] as const) {
    it(`is used on ${runtime}, whatever else is installed`, () => {
      putPackage(otherLibc, { links: true })
      putPackage(fitting, { links: true })
      expect(firstExec({ program })).toEqual({ stdout: 'ran\n' })
    })
  }

  it('is ADDON_MISSING when it is not installed, with what installs it', () => {
    const { name, code, message } = firstExec()
    expect([name, code]).toEqual(['AddonError', 'ADDON_MISSING'])
    expect(message).toMatch(`the package ${fitting} is not installed beside nacre`)
    expect(message).toContain('npm install --include=optional')
  })

  it('is ADDON_WRONG_LIBC when the one for another C library is installed', () => {
    putPackage(otherLibc, { links: true })
    const { code, message } = firstExec()
    expect(code).toBe('ADDON_WRONG_LIBC')
    expect(message).toMatch(`${otherLibc} is installed, which is for musl, and this program uses glibc`)
  })

  it('is ADDON_WRONG_ARCHITECTURE when the one for another processor is installed', () => {
    putPackage(otherArch, { links: true })
    expect(firstExec().code).toBe('ADDON_WRONG_ARCHITECTURE')
  })

  it('is ADDON_WRONG_VERSION when it belongs to another nacre', () => {
    putPackage(fitting, { version: '0.0.9', links: true })
    const { code, message } = firstExec()
    expect(code).toBe('ADDON_WRONG_VERSION')
    expect(message).toBe(
      `this is nacre ${VERSION}, and ${fitting} is 0.0.9: install both in the same version`,
    )
  })

  it('is not used when package.json does not declare it', () => {
    putPackage(fitting, { links: true })
    const { optionalDependencies, ...undeclared } = mainManifest(rootManifest)
    writeFileSync(path.join(installed, 'package.json'), JSON.stringify(undeclared))
    expect(firstExec().code).toBe('ADDON_MISSING')
    expect(firstExec({ program: bun }).code).toBe('ADDON_MISSING')
  })
})

describe('a file of the platform package', () => {
  it('that is lost is ADDON_MISSING', () => {
    rmSync(path.join(putPackage(fitting), 'nacre.node'))
    expect(firstExec().message).toMatch(/linux-\w+-gnu has no nacre\.node: install nacre again/)
  })

  it('that is not an ELF file is ADDON_NOT_LOADABLE, with the message of the loader', () => {
    for (const content of ['a page of a proxy, and no addon at all', '']) {
      const file = path.join(putPackage(fitting), 'nacre.node')
      writeFileSync(file, content)
      const { code, message, cause } = firstExec()
      expect(code).toBe('ADDON_NOT_LOADABLE')
      expect(message).toContain(`nacre's native addon ${file} cannot be loaded (${cause}): install it again`)
      rmSync(path.dirname(file), { recursive: true })
    }
  })

  // Bun has neither option.
  it.skipIf(process.versions.bun !== undefined)(
    'that Node.js may not load says so, and how to permit it',
    () => {
      putPackage(fitting)
      const noAddons = { NODE_OPTIONS: '--no-addons' }
      const { code, message } = firstExec({ env: noAddons })
      expect([code, message]).toEqual([
        'ADDON_NOT_LOADABLE',
        'this Node.js loads no addons, which nacre needs: run it without --no-addons, and with --permission also with --allow-addons and --allow-fs-read=*',
      ])
      const { allowedNodeEnvironmentFlags: flags } = process
      const permission = flags.has('--permission') ? '--permission' : '--experimental-permission'
      const files = ['main.mjs', 'package.json', 'node_modules/nacre/*'].map(
        (file) => `--allow-fs-read=${path.join(project, file)}`,
      )
      const denied = firstExec({ flags: [permission, ...files] })
      expect(denied).toMatchObject({ name: 'AddonError', code: 'ADDON_NOT_LOADABLE' })
      expect(denied.message).toMatch(
        /^the permissions of this Node\.js deny nacre FileSystemRead of \/.*--allow-addons/,
      )
    },
  )

  it('of another processor is ADDON_WRONG_ARCHITECTURE', () => {
    const file = path.join(putPackage(fitting), 'nacre.node')
    writeFileSync(file, forOtherProcessor(readFileSync(realAddon)))
    const [built, here] = process.arch === 'arm64' ? ['x64', 'arm64'] : ['arm64', process.arch]
    expect(firstExec()).toMatchObject({
      code: 'ADDON_WRONG_ARCHITECTURE',
      message: expect.stringContaining(`is built for ${built}, and this program runs on ${here}`),
    })
  })

  it('that needs musl is ADDON_WRONG_LIBC where the program uses glibc', () => {
    const directory = putPackage(fitting)
    const [library, source] = ['libc.musl-test.so.1', 'empty.c'].map((name) => path.join(project, name)) as [
      string,
      string,
    ]
    writeFileSync(source, 'int empty;')
    const compile = (...args: string[]) => execFileSync('cc', ['-shared', '-nostdlib', ...args, source])
    compile('-Wl,-soname,libc.musl-test.so.1', '-o', library)
    execFileSync('cc', [
      '-shared',
      '-nostdlib',
      '-Wl,--no-as-needed',
      '-o',
      path.join(directory, 'nacre.node'),
      source,
      library,
    ])
    rmSync(library)
    const { code, message } = firstExec()
    expect(code).toBe('ADDON_WRONG_LIBC')
    expect(message).toContain('is built for musl, and this program uses glibc')
  })

  it('that must not be executed is ADDON_NOT_EXECUTABLE, with the mode', () => {
    const file = path.join(putPackage(fitting), 'nacre-supervisor')
    chmodSync(file, 0o644)
    expect(firstExec()).toMatchObject({
      code: 'ADDON_NOT_EXECUTABLE',
      message: `${file} cannot be executed: make it executable (chmod 755 ${file}), or install again`,
    })
  })

  it('on a file system with noexec is ADDON_NOT_EXECUTABLE, with the mount option', () => {
    const directory = putPackage(fitting)
    const mount = `mount --bind '${directory}' '${directory}' && mount -o remount,bind,noexec '${directory}' && exec "$@"`
    const wrapper = ['unshare', '--user', '--map-root-user', '--mount', 'sh', '-c', mount, 'sh']
    expect(firstExec({ wrapper })).toMatchObject({
      code: 'ADDON_NOT_EXECUTABLE',
      message: expect.stringContaining('its file system is mounted with noexec'),
    })
  })
})

describe('NACRE_NATIVE_PATH', () => {
  it('replaces the search', () => {
    const directory = putPackage('elsewhere', { links: true })
    expect(firstExec({ env: { NACRE_NATIVE_PATH: directory } })).toEqual({ stdout: 'ran\n' })
    expect(firstExec({ program: bun, env: { NACRE_NATIVE_PATH: directory } })).toEqual({ stdout: 'ran\n' })
  })

  it('is not passed over when it is wrong', () => {
    putPackage(fitting, { links: true })
    expect(firstExec({ env: { NACRE_NATIVE_PATH: '/proc/nowhere' } })).toMatchObject({
      code: 'ADDON_MISSING',
      message: '/proc/nowhere has no nacre.node: install nacre again',
    })
  })
})

it('a supervisor that ends at its start passes its reason on', () => {
  const directory = putPackage(fitting)
  const file = path.join(directory, 'nacre-supervisor')
  writeFileSync(file, '#!/bin/sh\necho "nacre-supervisor: the moon is full" >&2; exit 1\n')
  expect(firstExec()).toMatchObject({
    code: 'SPAWN_FAILED',
    message: `the supervisor ${file} ended before it could start the shell: the moon is full`,
  })
})

it('without any variable bash is found in the default directories', () => {
  putPackage(fitting, { links: true })
  const wrapper = ['env', '-i']
  expect(firstExec({ wrapper, program: process.execPath })).toEqual({ stdout: 'ran\n' })
})

it('a clone that is not built is reported as such', () => {
  writeFileSync(path.join(installed, 'Cargo.toml'), '')
  expect(firstExec().message).toBe(`nacre is not built: run \`npm run setup\` in ${installed}`)
})

describe('a failure', () => {
  const machine: Machine = { platform: 'linux', arch: 'x64', libc: 'glibc', node: '24.1.0' }

  it('of another operating system names it and where to run', () => {
    const darwin = machineFailure({ ...machine, platform: 'darwin', node: '18.0.0' })
    expect([darwin?.code, darwin?.message]).toEqual([
      'ADDON_UNSUPPORTED_PLATFORM',
      'nacre runs on Linux only, and this is darwin: use openSandbox of nacre/engine, which runs it in a Linux container',
    ])
    expect(machineFailure({ ...machine, platform: 'win32' })?.message).toContain('WSL 2')
  })

  it('of a Node.js older than 20.19 names it; Bun has no such version', () => {
    for (const node of ['18.20.8', '20.18.3']) {
      expect(machineFailure({ ...machine, node })?.code).toBe('ADDON_UNSUPPORTED_NODE')
    }
    for (const node of ['20.19.0', '22.0.0', undefined])
      expect(machineFailure({ ...machine, node })).toBeUndefined()
  })

  it('of a Node.js without process.getBuiltinModule names the versions that have it', () => {
    const args = ['--import', 'data:text/javascript,process.getBuiltinModule = undefined']
    const program = "import('nacre').catch(({ code, message }) => console.log(code, message))"
    const options = { cwd: project, encoding: 'utf8' } as const
    expect(execFileSync('node', [...args, '-e', program], options)).toMatch(
      /^ADDON_UNSUPPORTED_NODE nacre needs Node.js 20.19, 22.3 or newer, and this is v\d/,
    )
  })

  it('of a processor without a package names it', () => {
    const none = { wanted: platformsFor('riscv64', 'glibc'), installed: [], clone: undefined }
    const { code, message } = absence({ ...machine, arch: 'riscv64' }, none)
    expect(code).toBe('ADDON_UNSUPPORTED_PLATFORM')
    expect(message).toContain('nacre has no package for Linux on riscv64')
  })

  it('reports another C library before another processor', () => {
    const state = { wanted: platformsFor('x64', 'glibc'), installed: PLATFORMS.slice(1), clone: undefined }
    expect(absence(machine, state).code).toBe('ADDON_WRONG_LIBC')
  })

  it('of a file that cannot be mapped names the mount option', () => {
    const error = new Error('/x/nacre.node: failed to map segment from shared object')
    expect(loadFailure(machine, '/x/nacre.node', { arch: 'x64', libc: 'glibc' }, error).code).toBe(
      'ADDON_NOT_EXECUTABLE',
    )
  })
})

it('reads the target of the real addon', () => {
  expect(examine(realAddon)).toEqual({ arch: process.arch, libc: 'glibc' })
  expect(examine(__filename)).toEqual({ arch: undefined, libc: undefined })
  expect(examine('/proc/does/not/exist')).toEqual({ arch: undefined, libc: undefined })
})
