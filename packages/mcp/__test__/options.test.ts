import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { MAIN, start, withBase } from './places.js'

describe('a bad option is an error with a remedy, before anything runs:', () => {
  it.each<[string[], RegExp]>([
    [['--isolation', 'some'], /Allowed choices are workspace, workspace\+network, read-only, none/],
    [['--nothing'], /unknown option '--nothing'[\s\S]*--help/],
    [['--foo'], /^error: unknown option '--foo'\n\(add --help/],
    [['--setups'], /Did you mean --setup\?/],
    [['words'], /too many arguments/],
    [['--cwd', '/proc/does/not/exist'], /--cwd .*existing directory/],
    [['--cwd', '/'], /in the directory \/, .*: give --cwd/],
    [['--write', '/proc/does/not/exist'], /--write .*existing directory/],
    [['--write', '/tmp', '--isolation', 'none'], /--write needs isolation/],
    [['--isolation-file', '/proc/none'], /--isolation-file .* cannot be read: ENOENT/],
    [['--isolation-file', 'x', '--isolation', 'none'], /exclude each other/],
    [['--isolation-file', 'x', '--container'], /--isolation-file is not for containers/],
    [['--ask'], /--ask needs --console/],
    [['--ask', '--console', '--isolation', 'none'], /--ask, .* need isolation/],
    [['--port', 'x'], /--port .*whole number/],
    [['--port', '70000'], /--port must be 0 to 65535/],
    [['--host', '0.0.0.0'], /--host.* are for HTTP: add --port/],
    [['--idle', '5m'], /--idle are for HTTP: add --port/],
    [['--port', '0', '--idle', '1s'], /--idle must be 1m to 24d/],
    [['--port', '0', '--host', 'a b'], /--host must be a host name/],
    [['--port', '0', '--allow-origin', '*'], /--allow-origin must have origins like/],
    [['--port', '0', '--token-file', '/proc/does/not/exist'], /--token-file .* cannot be read: ENOENT/],
    [['--port', '0', '--token-file', 'short'], /--token-file must be at least 16 characters/],
    [['--port', '0', '--tools', 'bash'], /--tools must have sessions over HTTP/],
    [['--port', '0', '--copy-on-write'], /--copy-on-write is for one client: leave out --port/],
    [['--tools', 'bash,sh'], /--tools must be a list of bash, wait, .*, not "sh"\n/],
    [['--allow-commit'], /--allow-commit needs --copy-on-write/],
    [['--env', 'A=b'], /--env must have names of variables/],
    [['--redact-file', 'short'], /line 1 of --redact-file must have at least 4 characters/],
    [['--timeout', '0'], /--timeout must be/],
    [['--timeout', 'soon'], /--timeout .*time like 10s/],
    [['--max-tokens', '10'], /--max-tokens must be/],
    [['--max-runs', '0'], /--max-runs must be/],
    [['--print-config', 'emacs'], /Allowed choices are claude, codex, cursor, gemini, vscode/],
    [['--print-config', 'claude', '--port', '0'], /leave out --port/],
  ])('%j', (words, message) =>
    withBase(async (base) => {
      writeFileSync(path.join(base.directory, 'short'), 'abc\n')
      const server = start(base, words)
      expect(await server.ended).toBe(2)
      expect(server.stderr()).toMatch(message)
      expect(server.stdout()).toBe('')
    }),
  )
})

describe('a machine that does not support an option is an error with a remedy:', () => {
  it.each([
    [[], { NACRE_ISOLATION: 'none' }, /cannot be enforced on this machine.*; with --isolation none/],
    [['--copy-on-write', '--cwd', '/dev'], {}, /cannot be copy-on-write.*; without --copy-on-write/],
  ])('%j with %j', (words, env, message) =>
    withBase(async (base) => {
      const server = start({ ...base, env: { ...base.env, ...env } }, words)
      expect(await server.ended).toBe(1)
      expect(server.stderr()).toMatch(message)
      expect(server.stdout()).toBe('')
    }),
  )
})

describe('--print-config', () => {
  const args = ['-y', '@nacre/mcp', '--isolation', 'workspace', '--max-wait=30s']
  const entry = { command: 'npx', args }
  it.each([
    ['claude', { mcpServers: { nacre: { type: 'stdio', ...entry } } }],
    ['cursor', { mcpServers: { nacre: entry } }],
    ['gemini', { mcpServers: { nacre: entry } }],
    ['vscode', { servers: { nacre: { type: 'stdio', ...entry } } }],
  ])('prints the entry for %s with the other options', (client, expected) =>
    withBase(async (base) => {
      const [first = '', second = '', ...others] = args.slice(2)
      const server = start(base, [first, second, '--print-config', client, ...others])
      expect(await server.ended).toBe(0)
      expect(JSON.parse(server.stdout())).toEqual(expected)
    }),
  )

  it('prints TOML for codex', () =>
    withBase(async (base) => {
      const server = start(base, ['--print-config=codex'])
      expect(await server.ended).toBe(0)
      expect(server.stdout()).toBe(
        '[mcp_servers.nacre]\ncommand = "npx"\nargs = ["-y","@nacre/mcp"]\nstartup_timeout_sec = 60\n',
      )
    }))
})

it('--help and --version print and end', () =>
  withBase(async (base) => {
    const help = start(base, ['--help'])
    expect(await help.ended).toBe(0)
    expect(help.stdout()).toMatch(
      /Usage: nacre-mcp \[options\][\s\S]*--isolation[\s\S]*default:\s+"workspace\+network"/,
    )
    const version = start(base, ['--version'])
    expect(await version.ended).toBe(0)
    expect(version.stdout()).toMatch(/^\d+\.\d+\.\d+\n$/)
  }))

it('nacre mcp is the same', () =>
  withBase(async (base) => {
    const nacre = path.join(MAIN, '../../../../dist/cli/main.js')
    const printed = start(
      base,
      ['mcp', '--print-config', 'cursor', '--cwd', '/usr'],
      [process.execPath, nacre],
    )
    expect(await printed.ended).toBe(0)
    expect(JSON.parse(printed.stdout()).mcpServers.nacre.args).toEqual(['-y', '@nacre/mcp', '--cwd', '/usr'])
    const server = start(base, ['mcp'], [process.execPath, nacre])
    server.child.stdin?.end()
    expect(await server.ended).toBe(0)
  }))
