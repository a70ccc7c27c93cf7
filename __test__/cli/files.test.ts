/** `nacre cp` and `nacre ls` against a server. */
import { chmodSync, mkdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { serve } from 'nacre/server'
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
  await withSandbox(
    (workplace) =>
      withCli(async (cli) => {
        const base = path.dirname(cli.root)
        writeFileSync(path.join(base, 'token'), `${token}\n`)
        const serving = await serve(workplace.sandbox, { port: 0, handleSignals: false, token })
        try {
          const server = ['--url', serving.url, '--token-file', path.join(base, 'token')]
          await test(cli, { server, remote: workplace.directory, local: (name) => path.join(base, name) })
        } finally {
          await serving.close()
        }
      }),
    { mayStall: true },
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

it('cp -r copies directories, and names what it leaves out', () =>
  withFiles(async ({ nacre }, { server, remote, local }) => {
    mkdirSync(local('tree/inner'), { recursive: true })
    writeFileSync(Buffer.from(`${local('tree/inner/odd')}\xff`, 'latin1'), 'x')
    symlinkSync('inner', local('tree/link'))
    const there = await nacre('cp', '-r', ...server, local('tree'), 'remote:copy')
    expect(there).toMatchObject({ code: 0, stdout: '' })
    expect(there.stderr).toContain('is a symlink to inner, and was left out')
    expect(readFileSync(Buffer.from(`${path.join(remote, 'copy/inner/odd')}\xff`, 'latin1'), 'utf8')).toBe(
      'x',
    )
    expect((await nacre('cp', '-r', ...server, 'remote:copy', local('back'))).code).toBe(0)
    expect(readFileSync(Buffer.from(`${local('back/inner/odd')}\xff`, 'latin1'), 'utf8')).toBe('x')
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
      stderr: "nacre: 'none' does not exist\n",
    })
    expect((await nacre('cp', 'a', 'b')).code).toBe(2)
    expect((await nacre('ls', ...server, '--session', 'none')).stderr).toContain("there is no session 'none'")
  }))
