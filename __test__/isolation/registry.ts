/** Registries with one package, which this test makes: of npm, pip, cargo and Go. They serve on an address of this machine. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { outerAddress } from '../helpers/serving.js'

/** The name of the package in every registry. In each language, it has a value with this text. */
export const PACKAGE = 'nacre-probe'
export const VALUE = 'a value of the package'
/** Its name for Go. */
export const MODULE = 'example.test/probe'

const ZIP = `
import os, sys, zipfile
with zipfile.ZipFile(sys.argv[1], 'w') as archive:
    for directory, _, files in os.walk(sys.argv[2]):
        for file in files:
            path = os.path.join(directory, file)
            archive.write(path, os.path.relpath(path, sys.argv[2]))
`

export interface Registry {
  url: string
  /** The entry for an allow list. */
  target: string
  close(): Promise<void>
}

export async function startRegistry(): Promise<Registry> {
  const address = outerAddress()
  let files = new Map<string, Buffer | string>()
  const server = createServer((request, response) => {
    const file = files.get(decodeURIComponent(request.url ?? ''))
    // npm sends an audit, which no registry has to answer.
    const type = request.url?.startsWith('/simple/') ? 'text/html' : 'application/octet-stream'
    response.writeHead(file === undefined ? 404 : 200, { 'content-type': type })
    response.end(file ?? '{}')
  })
  await new Promise<void>((resolve) => server.listen(0, address, resolve))
  const target = `${address}:${(server.address() as AddressInfo).port}`
  files = filesOf(`http://${target}`)
  return {
    url: `http://${target}`,
    target,
    async close() {
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

function filesOf(url: string): Map<string, Buffer | string> {
  const directory = mkdtempSync('/var/tmp/nacre-registry-')
  try {
    const at = (name: string) => path.join(directory, name)
    const write = (name: string, text: string) => {
      mkdirSync(path.dirname(at(name)), { recursive: true })
      writeFileSync(at(name), text)
    }
    const run = (...words: [string, ...string[]]) =>
      execFileSync(words[0], words.slice(1), { cwd: directory, stdio: 'pipe' })
    // Without entries of directories, which Go refuses.
    const zip = (name: string, tree: string) => run('python3', '-c', ZIP, `${name}.zip`, tree)

    const manifest = { name: PACKAGE, version: '1.0.0', main: 'index.js', description: VALUE }
    write('package/package.json', JSON.stringify(manifest))
    write('package/index.js', `module.exports = ${JSON.stringify(VALUE)}`)
    run('tar', '-czf', 'npm.tgz', 'package')
    const tarball = readFileSync(at('npm.tgz'))
    const dist = {
      tarball: `${url}/${PACKAGE}/-/${PACKAGE}-1.0.0.tgz`,
      integrity: `sha512-${createHash('sha512').update(tarball).digest('base64')}`,
      shasum: createHash('sha1').update(tarball).digest('hex'),
    }
    const packument = {
      name: PACKAGE,
      'dist-tags': { latest: '1.0.0' },
      versions: { '1.0.0': { ...manifest, dist } },
      time: {
        created: '2020-01-01T00:00:00Z',
        modified: '2020-01-01T00:00:00Z',
        '1.0.0': '2020-01-01T00:00:00Z',
      },
    }

    const info = 'nacre_probe-1.0.0.dist-info'
    write('wheel/nacre_probe.py', `value = ${JSON.stringify(VALUE)}\n`)
    write(`wheel/${info}/METADATA`, `Metadata-Version: 2.1\nName: ${PACKAGE}\nVersion: 1.0.0\n`)
    write(
      `wheel/${info}/WHEEL`,
      'Wheel-Version: 1.0\nGenerator: nacre\nRoot-Is-Purelib: true\nTag: py3-none-any\n',
    )
    write(`wheel/${info}/RECORD`, `nacre_probe.py,,\n${info}/METADATA,,\n${info}/WHEEL,,\n${info}/RECORD,,\n`)
    zip('wheel', 'wheel')
    const wheel = 'nacre_probe-1.0.0-py3-none-any.whl'

    const crate = `${PACKAGE}-1.0.0`
    write(`${crate}/Cargo.toml`, `[package]\nname = "${PACKAGE}"\nversion = "1.0.0"\nedition = "2021"\n`)
    write(`${crate}/src/lib.rs`, `pub const VALUE: &str = ${JSON.stringify(VALUE)};\n`)
    run('tar', '-czf', 'crate.tgz', crate)
    const cksum = createHash('sha256')
      .update(readFileSync(at('crate.tgz')))
      .digest('hex')
    const indexed = { name: PACKAGE, vers: '1.0.0', deps: [], cksum, features: {}, yanked: false }

    const module = `module/${MODULE}@v1.0.0`
    write(`${module}/go.mod`, `module ${MODULE}\n`)
    write(`${module}/probe.go`, `package probe\n\nconst Value = ${JSON.stringify(VALUE)}\n`)
    zip('module', 'module')

    return new Map<string, Buffer | string>([
      [`/${PACKAGE}`, JSON.stringify(packument)],
      [new URL(dist.tarball).pathname, tarball],
      [`/simple/${PACKAGE}/`, `<!DOCTYPE html><a href="${url}/wheels/${wheel}">${wheel}</a>`],
      [`/wheels/${wheel}`, readFileSync(at('wheel.zip'))],
      ['/crates/config.json', JSON.stringify({ dl: `${url}/crate/{crate}-{version}`, api: url })],
      [`/crates/na/cr/${PACKAGE}`, JSON.stringify(indexed)],
      [`/crate/${crate}`, readFileSync(at('crate.tgz'))],
      [`/go/${MODULE}/@v/list`, 'v1.0.0\n'],
      [`/go/${MODULE}/@v/v1.0.0.info`, JSON.stringify({ Version: 'v1.0.0', Time: '2020-01-01T00:00:00Z' })],
      [`/go/${MODULE}/@v/v1.0.0.mod`, `module ${MODULE}\n`],
      [`/go/${MODULE}/@v/v1.0.0.zip`, readFileSync(at('module.zip'))],
    ])
  } finally {
    rmSync(directory, { recursive: true, force: true })
  }
}
