/** `nacre cp` and `nacre ls` against a server. */
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { serve } from '@nacre/server'
import { expect, it } from 'vitest'
import { type Cli, withCli } from '../helpers/cli.js'
import { withSandbox } from '../helpers/invariants.js'

const token = 'a-token-for-the-tests'

/** A server, and a directory of this machine beside that of its sandbox. */
async function withFiles(
  test: (
    cli: Cli,
    place: { server: string[]; remote: string; local: (name: string) => string },
  ) => Promise<void>,
): Promise<void> {
  await withSandbox((workplace) =>
    withCli(async (cli) => {
      const base = path.dirname(cli.root)
      writeFileSync(path.join(base, 'token'), `${token}\n`)
      const serving = await serve(workplace.sandbox, { port: 0, token })
      try {
        const server = ['--url', serving.url, '--token-file', path.join(base, 'token')]
        await test(cli, { server, remote: workplace.directory, local: (name) => path.join(base, name) })
      } finally {
        await serving.close()
      }
    }),
  )
}

it('cp copies a file there and back, with its permissions', () =>
  withFiles(async ({ nacre }, { server, remote, local }) => {
    const content = Buffer.alloc(3_000_001, 'nacre')
    writeFileSync(local('data'), content)
    chmodSync(local('data'), 0o750)
    expect(await nacre('cp', ...server, local('data'), 'remote:in/data')).toEqual({
      code: 0,
      stdout: '',
      stderr: '',
    })
    expect(readFileSync(path.join(remote, 'in/data')).equals(content)).toBe(true)
    expect(statSync(path.join(remote, 'in/data')).mode & 0o777).toBe(0o750)
    expect((await nacre('cp', ...server, 'remote:in/data', local('back'))).code).toBe(0)
    expect(readFileSync(local('back')).equals(content)).toBe(true)
    expect(statSync(local('back')).mode & 0o777).toBe(0o750)
    expect((await nacre('cp', ...server, local('back'), 'remote:in')).code).toBe(0)
    expect(statSync(path.join(remote, 'in/back')).size).toBe(content.length)
  }))

it('cp copies standard input, and to standard output', () =>
  withFiles(async ({ nacre, start }, { server, remote }) => {
    const content = 'a line\n'.repeat(100_000)
    expect(await start(['cp', ...server, '-', 'remote:in/data'], content).ended).toMatchObject({ code: 0 })
    expect(readFileSync(path.join(remote, 'in/data'), 'utf8') === content).toBe(true)
    expect((await nacre('cp', ...server, 'remote:in/data', '-')).stdout === content).toBe(true)
    expect((await nacre('cp', '-r', ...server, 'remote:in', '-')).stderr).toContain(
      '--recursive is for directories',
    )
    expect((await nacre('cp', ...server, 'remote:none', '-')).stderr).toContain('none')
  }))

it('cp -r copies directories, and names what it leaves out', () =>
  withFiles(async ({ nacre }, { server, remote, local }) => {
    mkdirSync(local('tree/inner'), { recursive: true })
    writeFileSync(Buffer.from(`${local('tree/inner/odd')}\xff`, 'latin1'), 'x')
    // The longest name that file systems have.
    const long = 'x'.repeat(255)
    writeFileSync(local(`tree/${long}`), 'long')
    symlinkSync('inner', local('tree/link'))
    const there = await nacre('cp', '-r', ...server, local('tree'), 'remote:copy')
    expect(there).toMatchObject({ code: 0, stdout: '' })
    expect(there.stderr).toContain('tree/link is not a regular file, and was left out')
    expect(readFileSync(Buffer.from(`${path.join(remote, 'copy/inner/odd')}\xff`, 'latin1'), 'utf8')).toBe(
      'x',
    )
    expect((await nacre('cp', '-r', ...server, 'remote:copy', local('back'))).code).toBe(0)
    expect(readFileSync(Buffer.from(`${local('back/inner/odd')}\xff`, 'latin1'), 'utf8')).toBe('x')
    expect(readFileSync(local(`back/${long}`), 'utf8')).toBe('long')
    const refused = await nacre('cp', ...server, local('tree'), 'remote:other')
    expect(refused).toMatchObject({ code: 2 })
    expect(refused.stderr).toContain('--recursive')
  }))

it('ls lists a directory, and errors are one sentence', () =>
  withFiles(async ({ nacre }, { server, remote }) => {
    mkdirSync(path.join(remote, 'd'))
    writeFileSync(path.join(remote, 'd/a\nb'), '12345')
    writeFileSync(path.join(remote, 'c'), '')
    expect(await nacre('ls', ...server)).toEqual({ code: 0, stdout: 'c\nd\n', stderr: '' })
    expect((await nacre('ls', '-r', ...server)).stdout).toBe('c\nd\n"d/a\\nb"\n')
    expect((await nacre('ls', '-l', ...server, 'd')).stdout).toMatch(/^- 0644 {12}5 \d{4}-.*Z "d\/a\\nb"\n$/)
    expect(JSON.parse((await nacre('ls', '--json', ...server, 'd')).stdout)).toMatchObject([{ size: 5 }])
    expect(await nacre('ls', ...server, 'none')).toEqual({
      code: 1,
      stdout: '',
      stderr: "nacre: 'none' does not exist; a relative path starts at the directory of the session\n",
    })
    const sequence = await nacre('ls', ...server, 'x\x1b[31m\x9by')
    expect(sequence.code).toBe(1)
    expect(sequence.stderr).toMatch(/^nacre: 'x\\u001b\[31m\\u009by' does not exist;/)
    expect((await nacre('cp', 'a', 'b')).code).toBe(2)
    expect((await nacre('ls', ...server, '--session', 'none')).stderr).toContain("there is no session 'none'")
  }))

/** A server whose listings contain these paths, relative to the listed directory. */
async function withHostileServer(names: string[], test: (url: string) => Promise<void>): Promise<void> {
  const modified = new Date(0).toISOString()
  const entry = (name: string, type: string) => ({ path: name, name, type, size: 4, mode: 0o755, modified })
  const server = createServer((request, response) => {
    const { pathname } = new URL(request.url ?? '', 'http://localhost')
    const json = (body: unknown) => {
      response.setHeader('content-type', 'application/json')
      response.end(JSON.stringify(body))
    }
    response.setHeader('x-nacre-instance', 'hostile')
    request.resume()
    if (pathname.endsWith('/list')) return json({ files: names.map((name) => entry(name, 'file')) })
    if (pathname.endsWith('/stat')) return json({ file: entry('d', 'directory') })
    if (pathname.endsWith('/content')) return response.end('evil')
    return json({ id: 'default' })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  try {
    await test(`http://127.0.0.1:${(server.address() as AddressInfo).port}`)
  } finally {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
}

it('cp -r refuses names of a server that are not the names of files', () =>
  withCli(async ({ nacre, root }) => {
    const base = path.dirname(root)
    mkdirSync(path.join(base, 'a/target'), { recursive: true })
    for (const name of ['d/..', 'd/', '', '.', '..', '/', 'd/x\0y']) {
      await withHostileServer(['good', name], async (url) => {
        const result = await nacre('cp', '-r', '--url', url, 'remote:d', path.join(base, 'a/target/copy'))
        expect(result).toMatchObject({ code: 1, stdout: '' })
        expect(result.stderr).toContain('cannot be the name of a file')
      })
      expect(readdirSync(base).sort()).toEqual(['a'])
      expect(readdirSync(path.join(base, 'a/target'))).toEqual([])
    }
    // Only the last part of a path counts.
    await withHostileServer(['/etc/x', '../../y'], async (url) => {
      const result = await nacre('cp', '-r', '--url', url, 'remote:d', path.join(base, 'a/target/copy'))
      expect(result).toEqual({ code: 0, stdout: '', stderr: '' })
    })
    expect(readdirSync(path.join(base, 'a/target/copy')).sort()).toEqual(['x', 'y'])
  }))

it('cp -r from a server does not follow symlinks in the target', () =>
  withFiles(async ({ nacre }, { server, remote, local }) => {
    mkdirSync(path.join(remote, 'tree/sub'), { recursive: true })
    writeFileSync(path.join(remote, 'tree/sub/file'), 'new')
    writeFileSync(path.join(remote, 'tree/other'), 'new')
    mkdirSync(local('outside'))
    mkdirSync(local('copy'))
    symlinkSync('../outside', local('copy/sub'))
    writeFileSync(local('victim'), 'old')
    symlinkSync('../victim', local('copy/other'))
    const result = await nacre('cp', '-r', ...server, 'remote:tree/.', local('copy'))
    expect(result.code).toBe(1)
    expect(result.stderr).toContain('exists and is not a directory')
    expect(readdirSync(local('outside'))).toEqual([])
    expect(readFileSync(local('victim'), 'utf8')).toBe('old')
  }))

it('cp -r copies a directory into itself once, when the server serves the same directory', () =>
  withFiles(async ({ start }, { server, remote }) => {
    mkdirSync(path.join(remote, 'sub/x'), { recursive: true })
    writeFileSync(path.join(remote, 'sub/file'), '1')
    const there = await start(['cp', '-r', ...server, remote, 'remote:sub/y'], '').ended
    expect(there).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(readdirSync(path.join(remote, 'sub/y/sub')).sort()).toEqual(['file', 'x'])
    const back = await start(['cp', '-r', ...server, 'remote:', path.join(remote, 'sub/z')], '').ended
    expect(back).toEqual({ code: 0, stdout: '', stderr: '' })
    expect(readdirSync(path.join(remote, 'sub/z/sub')).sort()).toEqual(['file', 'x', 'y'])
  }))
