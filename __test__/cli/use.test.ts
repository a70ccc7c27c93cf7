/** Bad use is exit code 2 and a sentence, before anything runs; colours are for terminals. */
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
import { withServer } from '../helpers/http.js'

const root = path.dirname(path.dirname(__dirname))
const token = 'a-token-for-the-tests'

it('--version and --help', () =>
  withCli(async ({ nacre }) => {
    const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8'))
    expect(await nacre('--version')).toEqual({ code: 0, stdout: `${version}\n`, stderr: '' })
    const help = await nacre('--help')
    expect(help.code).toBe(0)
    for (const word of ['exec', 'job']) expect(help.stdout).toContain(word)
    expect((await nacre('job', 'logs', '--help')).stdout).toContain('--follow')
  }))

it('the help of the program and of its main verbs ends with examples', () =>
  withCli(async ({ nacre }) => {
    for (const words of [
      [],
      ['exec'],
      ['serve'],
      ['worker'],
      ['queue', 'add'],
      ['cp'],
      ['ls'],
      ['job', 'start'],
      ['job', 'prune'],
      ['completion'],
    ]) {
      const { code, stdout } = await nacre(...words, '--help')
      expect(code).toBe(0)
      const [, examples = ''] = stdout.split('\nExamples:\n')
      const lines = examples.trim().split('\n')
      expect(lines.length).toBeGreaterThan(2)
      for (const line of lines) expect(line).toMatch(new RegExp(`nacre ${words.join(' ')}.* # \\w`))
    }
  }))

describe('refused with exit code 2:', () => {
  const bad: Array<[string[], RegExp]> = [
    [[], /Usage: nacre/],
    [['nonsense'], /unknown command 'nonsense'/],
    [['help', 'exce'], /^error: unknown command 'exce'\n\(Did you mean exec\?\)/],
    [['job', 'help', 'stat'], /^error: unknown command 'stat'\n\(Did you mean start\?\)/],
    [['queue', 'help', 'nonsense'], /^error: unknown command 'nonsense'\n\(add --help/],
    [['try', '--foo'], /^error: unknown option '--foo'\n\(add --help/],
    [['exec'], /missing required argument 'command'/],
    [['exec', ' '], /<command> must not be blank/],
    [['exec', '--nonsense', 'true'], /unknown option '--nonsense'/],
    [['exec', '--timeout', '5 years', 'true'], /--timeout.*It must be a time like 10s/],
    [['exec', '--env', 'A', 'true'], /--env.*NAME=VALUE/],
    [['exec', '--env', 'a-b=1', 'true'], /"a-b"/],
    [['job'], /Usage: nacre job/],
    [['completion', 'tcsh'], /Allowed choices are bash, zsh, fish/],
    [['job', 'logs'], /missing required argument 'id'/],
    [['job', 'logs', '--cursor', '-1', 'x'], /--cursor.*number of bytes/],
    [['job', 'status', '../x'], /<id> must be 1 to 128 characters/],
    [['job', 'status', 'a', 'b'], /too many arguments/],
    [['job', 'start', '--timeout', '600h', 'true'], /--timeout must be/],
    [['job', 'start', '--id', 'a b', 'true'], /--id must be/],
    [['exec', '--grace', '600h', 'true'], /--grace must be/],
    [['serve', '--port', '70000'], /--port must be/],
    [['serve', '--token-file', '/proc/does/not/exist'], /--token-file .* ENOENT/],
    [['serve', '--host', '0.0.0.0'], /--host 0\.0\.0\.0 .* give --token-file/],
    [['serve', '--isolation', 'true'], /--isolation.*Allowed choices are workspace/],
    [['job', 'start', '--input', '/proc/does/not/exist', 'true'], /--input .* cannot be read: ENOENT/],
    [['queue', 'add', '--input', '/proc/does/not/exist', 'true'], /--input .* cannot be read: ENOENT/],
    [['ls', '--session', 'a b'], /--session must be/],
    [['ls', '--token-file', '/proc/does/not/exist'], /--token-file .* cannot be read: ENOENT/],
    [['serve', '--cwd', '/proc/does/not/exist'], /--cwd.*existing directory/],
    [['worker', '--cwd', '/proc/does/not/exist'], /--cwd.*existing directory/],
    [['worker', '--host-id', 'a b'], /--host-id must be/],
    [['ls', '--url', 'x'], /--url must be/],
    [['exec', '--timeoutMs', '5', 'true'], /Did you mean --timeout\?/],
    [['exec', '--envs', 'A=1', 'true'], /Did you mean --env\?/],
    [['exec', 'echo hi', '--timeout', '5'], /--timeout after the command.*before the command/],
    [['exec', '--tty', 'echo hi', '--timeout=5'], /--timeout after the command/],
    [['exec', 'echo hi', '--time', '5'], /--time after the command/],
    [['exec', 'echo hi', '--help'], /--help after the command/],
    [['job', 'start', 'echo hi', '--id', 'x'], /--id after the command/],
    [['queue', 'add', 'echo hi', '--delay', '1s'], /--delay after the command/],
  ]
  for (const [words, message] of bad) {
    it(`nacre ${words.join(' ')}`, () =>
      withCli(async ({ nacre, root: jobsRoot }) => {
        const { code, stdout, stderr } = await nacre(...words)
        expect([code, stdout]).toEqual([2, ''])
        expect(stderr).toMatch(message)
        expect(existsSync(jobsRoot)).toBe(false)
      }))
  }
})

it('words after -- and after an ordinary program are its arguments', () =>
  withCli(async ({ nacre }) => {
    expect(await nacre('exec', 'echo', '--timeout', '5')).toMatchObject({ code: 0, stdout: '--timeout 5\n' })
    const named = await nacre('exec', '--', 'echo hi', '--timeout', '5')
    expect(named).toMatchObject({ code: 127, stderr: expect.stringContaining('echo hi: command not found') })
  }))

it('a server that cannot be reached is named with the flag of its URL', () =>
  withCli(async ({ nacre }) => {
    const { code, stderr } = await nacre('ls', '--url', 'http://127.0.0.1:1')
    expect(code).toBe(1)
    expect(stderr).toMatch(
      /127\.0\.0\.1:1\/.*check that the server runs, and its URL \(--url, or \$NACRE_URL\)/,
    )
  }))

it('a server that refuses the token or the path is named with the flags', () =>
  withServer(
    async ({ url }) =>
      withCli(async ({ nacre, root: jobsRoot }) => {
        const { stderr } = await nacre('ls', '--url', url)
        expect(stderr).toMatch(/UNAUTHORIZED.* \(--token-file, or \$NACRE_TOKEN\)/)
        writeFileSync(path.join(path.dirname(jobsRoot), 'token'), token)
        const other = await nacre('ls', '--url', `${url}/x`, '--token-file', 'token')
        expect(other.stderr).toMatch(/NOT_FOUND.* \(--url, or \$NACRE_URL\)/)
      }),
    { token },
  ))

it('addresses and directories that cannot be used are named with their flags', () =>
  withCli(async ({ nacre, root: jobsRoot }) => {
    const file = path.join(path.dirname(jobsRoot), 'token')
    writeFileSync(file, token)
    const serve = ['serve', '--host', 'none.invalid', '--token-file', file, '--port', '0']
    expect((await nacre(...serve)).stderr).toMatch(/^nacre: --port 0 .* choose an address of this machine/m)
    const sandboxd = ['--sandboxd', '--sandboxd-host', 'none.invalid', '--rest-port', '0']
    const ports = ['--grpc-port', '0', '--root', path.dirname(jobsRoot)]
    expect((await nacre('serve', '--port', '0', ...sandboxd, ...ports)).stderr).toMatch(
      /^nacre: --rest-port 0 /m,
    )
    const job = await nacre('job', 'start', '--root', file, 'true')
    expect(job).toMatchObject({ code: 1, stdout: '' })
    expect(job.stderr).toMatch(/^nacre: --root '.*' cannot be used/)
  }))

it('help ends quietly when its reader has exited', () =>
  withCli(async ({ start }) => {
    const { child, ended } = start(['exec', '--help'])
    child.stdout?.destroy()
    expect(await ended).toMatchObject({ code: 0, stderr: '' })
  }))

it('there are colours on a terminal, none elsewhere, and none with NO_COLOR', () =>
  withCli(async ({ job, root: jobsRoot }) => {
    await job('start', '--id', 'a', 'exit 1')
    await job('wait', 'a')
    const main = path.join(root, 'dist', 'cli', 'main.js')
    const line = `${process.execPath} ${main} job status --root ${jobsRoot} a`
    // script(1) gives it a terminal.
    const onTerminal = (env: NodeJS.ProcessEnv) =>
      execFileSync('script', ['-qec', line, '/dev/null'], {
        encoding: 'utf8',
        env,
        stdio: ['ignore', 'pipe', 'pipe'],
      })
    const { NO_COLOR, ...plain } = process.env
    expect(onTerminal(plain)).toContain('\x1b[31mexited 1\x1b[39m')
    expect(onTerminal({ ...plain, NO_COLOR: '1' }).trim()).toBe('exited 1')
    expect((await job('status', 'a')).stdout).toBe('exited 1\n')
  }))
