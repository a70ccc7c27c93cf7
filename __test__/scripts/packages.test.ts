/** The pure parts of `npm run build:packages`. */
import { spawnSync } from 'node:child_process'
import { cpSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { PLATFORMS, VERSION } from '../../lib/addon/platforms.js'
import { companions } from '../../scripts/packages/companions.mjs'
import { compareVersions, findFaults as findElfFaults, highest, parse } from '../../scripts/packages/elf.mjs'
import {
  companionManifest,
  containerManifest,
  findFaults,
  mainManifest,
  platformManifest,
} from '../../scripts/packages/manifest.mjs'
import { linkedCrates, noticeText } from '../../scripts/packages/notice.mjs'
import { CONTAINERS, packageName, TARGETS } from '../../scripts/packages/targets.mjs'
import { zigArguments } from '../../scripts/packages/zig-arguments.mjs'
import { temporary } from '../helpers/temporary.js'

const root = path.dirname(path.dirname(__dirname))
const source = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
const x64 = TARGETS['linux-x64-gnu']

describe('the published package.json', () => {
  const manifest = mainManifest(source)

  it('declares exactly the packages that the loader looks for, in its own version', () => {
    expect(Object.keys(manifest.optionalDependencies)).toEqual([
      ...PLATFORMS.map(({ name }) => name),
      ...['x64', 'arm64'].map((cpu) => `@nacre/container-${cpu}`),
    ])
    expect(new Set(Object.values(manifest.optionalDependencies))).toEqual(new Set([VERSION]))
    expect(manifest.version).toBe(VERSION)
  })

  it('has no script, no dependency and no mark that keeps it from being published', () => {
    expect(findFaults(manifest, {})).toEqual([])
    expect(Object.keys(manifest)).not.toEqual(
      expect.arrayContaining(['scripts', 'devDependencies', 'private']),
    )
  })

  it('of a platform package restricts where npm installs it', () => {
    for (const [name, { cpu, libc }] of Object.entries(TARGETS)) {
      const { os, ...found } = platformManifest(source, name)
      expect(found).toMatchObject({ name: packageName(name), version: VERSION, cpu: [cpu], libc: [libc] })
      expect(os).toEqual(['linux'])
      expect(PLATFORMS).toContainEqual({ arch: cpu, libc, name: packageName(name) })
    }
  })

  it('of a package for containers is for Macs alone, with the files of Linux', () => {
    expect(CONTAINERS).toEqual(['x64', 'arm64'])
    expect(containerManifest(source, 'arm64')).toMatchObject({
      name: '@nacre/container-arm64',
      version: VERSION,
      os: ['darwin'],
      cpu: ['arm64'],
      files: ['gnu', 'musl', 'nacre-supervisor', 'NOTICE'],
      preferUnplugged: true,
    })
    expect(findFaults(containerManifest(source, 'x64'), {})).toEqual([])
    expect(source).not.toHaveProperty('os')
  })

  it.each(companions(root))('of packages/%s needs exactly this version of nacre', (name) => {
    const own = JSON.parse(readFileSync(path.join(root, 'packages', name, 'package.json'), 'utf8'))
    const companion = companionManifest(source, own)
    expect(companion).toMatchObject({ name: `@nacre/${name}`, version: VERSION })
    expect(companion).not.toHaveProperty('devDependencies')
    expect(findFaults(companion, {})).toEqual([])
    expect(findFaults({ ...companion, peerDependencies: { nacre: '^0.1.0' } }, {})).toEqual([
      `@nacre/${name} wants nacre ^0.1.0, not ${VERSION}`,
    ])
  })

  it('is refused with a wrong version, a script, a dependency or a missing field', () => {
    const { license, ...changed } = { ...manifest, scripts: { postinstall: 'x' }, dependencies: { x: '1' } }
    changed.optionalDependencies = { '@nacre/linux-x64-gnu': '0.0.1' }
    expect(findFaults(changed, { 'Cargo.toml': '9.9.9' })).toEqual([
      `Cargo.toml has version 9.9.9, and nacre has ${VERSION}`,
      'nacre has scripts',
      'nacre has dependencies',
      "nacre has no field 'license'",
      `nacre wants @nacre/linux-x64-gnu 0.0.1, not ${VERSION}`,
    ])
  })
})

it('publish.mjs runs without an installation, as in the release', () => {
  const clone = temporary('nacre-publish-')
  for (const name of ['scripts', 'packages', 'package.json'])
    cpSync(path.join(root, name), path.join(clone, name), { recursive: true })
  const { stderr } = spawnSync(process.execPath, ['scripts/publish.mjs', '--dry-run'], {
    cwd: clone,
    encoding: 'utf8',
  })
  expect(stderr).toMatch(/not built: .*@nacre\/server, .*\. Run `npm run build:packages -- all`/)
})

describe('the output of readelf', () => {
  const text = `
  Machine:                           Advanced Micro Devices X86-64
  [27] .symtab           SYMTAB          0000000000000000 001000 000010 18     28   2  8
      [Requesting program interpreter: /lib64/ld-linux-x86-64.so.2]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libssl.so.3]
  0x0010:   Name: GLIBC_2.9  Flags: none  Version: 3
  0x0020:   Name: GLIBC_2.34  Flags: none  Version: 2`

  it('becomes the kind and the needs of a file', () => {
    expect(parse(text)).toMatchObject({
      machine: 'Advanced Micro Devices X86-64',
      interpreter: '/lib64/ld-linux-x86-64.so.2',
      needed: ['libc.so.6', 'libssl.so.3'],
      glibc: '2.34',
      isStripped: false,
    })
  })

  it('is compared with the promises of the package', () => {
    expect(findElfFaults(parse(text), 'addon', x64)).toEqual([
      'is not stripped',
      'needs glibc 2.34; the oldest supported version is 2.17',
      'needs libssl.so.3',
    ])
    expect(findElfFaults(parse(text), 'supervisor', x64)).toEqual([
      'is not stripped',
      'is not linked statically',
    ])
    expect(findElfFaults(parse(text), 'builtin', TARGETS['linux-arm64-musl'])).toEqual(
      expect.arrayContaining([
        'is built for Advanced Micro Devices X86-64, not for arm64',
        'is built for glibc',
      ]),
    )
  })

  it('has versions that are compared as numbers', () => {
    expect(highest(['2.9', '2.17', '2.2.5'])).toBe('2.17')
    expect(highest([])).toBeUndefined()
    expect(compareVersions('2.17', '2.17')).toBe(0)
    expect(compareVersions('2.2.5', '2.17')).toBeLessThan(0)
    expect(compareVersions('2.17.1', '2.17')).toBeGreaterThan(0)
  })
})

it('arguments for a linker are translated for zig', () => {
  const args = [
    '-m64',
    '--target=x86_64-linux-gnu',
    '-O2',
    '-lgcc_s',
    '-Wl,-z,noseparate-code',
    '-fuse-ld=lld',
    'a.c',
  ]
  expect(zigArguments('x86_64-linux-gnu.2.17', args)).toEqual([
    ...['cc', '-target', 'x86_64-linux-gnu.2.17'],
    ...['-O2', '-lunwind', 'a.c'],
  ])
})

describe('NOTICE', () => {
  it('lists crates that are linked, and neither macros, build tools nor our own', () => {
    const crate = (name: string, kind = 'lib') => ({ name, id: name, targets: [{ kind: [kind] }] })
    const uses = (id: string, ...deps: Array<[string, string | null]>) => ({
      id,
      deps: deps.map(([pkg, kind]) => ({ pkg, dep_kinds: [{ kind }] })),
    })
    const metadata = {
      packages: [
        crate('nacre'),
        crate('core'),
        crate('a'),
        crate('b'),
        crate('m', 'proc-macro'),
        crate('cc'),
      ],
      workspace_members: ['nacre', 'core'],
      resolve: {
        nodes: [
          uses('nacre', ['core', null], ['cc', 'build']),
          uses('core', ['a', null], ['m', null]),
          uses('a', ['b', null]),
        ],
      },
    }
    expect(linkedCrates(metadata, ['nacre']).map(({ name }: { name: string }) => name)).toEqual(['a', 'b'])
  })

  it('has each text once, and refuses a package without a licence', () => {
    const components = ['b', 'a'].map((name) => ({ name, version: '1', license: 'MIT', texts: ['the text'] }))
    const text = noticeText('nacre', components)
    expect(text.match(/the text/g)).toHaveLength(1)
    expect(text).toMatch(/- a 1: MIT\n- b 1: MIT\n[\s\S]*a, b\n\nthe text/)
    expect(() => noticeText('nacre', [{ name: 'x', license: undefined }])).toThrow(
      'No licence is known for x.',
    )
  })
})
