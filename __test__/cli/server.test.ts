/** The verbs that look at a server: `nacre ps`, `nacre logs`, `nacre attach` and `nacre exec --url`. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { serve } from '@nacre/server'
import type { Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type Cli, startInTerminal, withCli } from '../helpers/cli.js'
import { withSandbox } from '../helpers/invariants.js'
import { until } from '../helpers/until.js'

const token = 'a-token-for-the-tests'

interface Place {
  cli: Cli
  sandbox: Sandbox
  /** The options for the server. */
  server: string[]
  directory: string
}

async function withServer(test: (place: Place) => Promise<void>): Promise<void> {
  await withSandbox(({ sandbox, directory }) =>
    withCli(async (cli) => {
      const file = path.join(path.dirname(cli.root), 'token')
      writeFileSync(file, `${token}\n`)
      const serving = await serve(sandbox, { port: 0, token })
      try {
        await test({ cli, sandbox, server: ['--url', serving.url, '--token-file', file], directory })
      } finally {
        await serving.close()
      }
    }),
  )
}

describe('nacre ps', () => {
  it('lists commands, processes and terminals, with headers', () =>
    withServer(async ({ cli, sandbox, server, directory }) => {
      const go = `until [ -e ${directory}/go ]; do sleep 0.01; done`
      const running = sandbox.exec(`: ${'x'.repeat(80)}; ${go}`)
      await sandbox.startProcess(go, { processId: 'plain' })
      const terminal = await sandbox.startProcess('cat', { processId: 'shell', pty: true })
      await using _hold = await terminal.hold('someone')
      await (await sandbox.startProcess('true', { processId: 'over' })).waitForExit()
      const lines = (await cli.nacre('ps', ...server)).stdout.split('\n')
      expect(lines[0]).toMatch(/^ID +SESSION +KIND +STATUS +TIME +COMMAND$/)
      expect(lines[1]).toMatch(/^\d+ +default +command +running +\d+s +: x{58}…$/)
      expect(lines[2]).toMatch(/^plain +default +process +running +\d+s +until /)
      expect(lines[3]).toMatch(/^shell +default +terminal +running, held by someone +\d+s +cat$/)
      expect(lines.slice(4)).toEqual([''])
      const all = JSON.parse((await cli.nacre('ps', '--all', '--json', ...server)).stdout)
      expect(all.at(-1)).toMatchObject({
        id: 'over',
        sessionId: 'default',
        kind: 'process',
        status: 'completed',
        command: 'true',
      })
      await sandbox.files.write(`${directory}/go`, '')
      await running
    }))

  it('says which option is wrong', () =>
    withServer(async ({ cli, server }) => {
      const [, url = ''] = server
      expect((await cli.nacre('ps', '--url', url)).stderr).toContain('--token-file, or $NACRE_TOKEN')
      expect((await cli.nacre('ps', '--url', 'http://127.0.0.1:1')).stderr).toContain('--url, or $NACRE_URL')
    }))
})

describe('nacre logs', () => {
  it('prints all, the last lines, and what follows, with the exit code', () =>
    withServer(async ({ cli, sandbox, server, directory }) => {
      const go = `until [ -e ${directory}/go ]; do sleep 0.01; done`
      const process = await sandbox.startProcess(`seq 5; echo err >&2; ${go}; printf end; exit 7`, {
        processId: 'counts',
      })
      await process.waitForLog('5')
      await until(
        async () => ((await process.getLogs()).stderr === 'err\n' ? true : undefined),
        () => 'no err',
      )
      expect(await cli.nacre('logs', ...server, 'counts')).toEqual({
        code: 0,
        stdout: '1\n2\n3\n4\n5\n',
        stderr: 'err\n',
      })
      const tail = await cli.nacre('logs', '--tail', '3', ...server, 'counts')
      expect(tail).toEqual({ code: 0, stdout: '4\n5\n', stderr: 'err\n' })
      const following = cli.start(['logs', '-f', '-n', '2', ...server, 'counts'])
      await following.printed('5\n')
      await sandbox.files.write(`${directory}/go`, '')
      expect(await following.ended).toEqual({ code: 7, stdout: '5\nend', stderr: 'err\n' })
      expect((await cli.nacre('logs', '-n', '1', ...server, 'counts')).stdout).toBe('end')
      const mixed = await sandbox.startProcess('printf "a\\n"; echo b >&2; printf "c\\nd\\n"; printf e >&2', {
        processId: 'mixed',
      })
      await mixed.waitForExit()
      for (const [lines, stdout, stderr] of [
        ['0', '', ''],
        ['9', 'a\nc\nd\n', 'b\ne'],
      ] as const)
        expect(await cli.nacre('logs', '-n', lines, ...server, 'mixed')).toEqual({ code: 0, stdout, stderr })
      expect((await cli.nacre('logs', '-n', '0', ...server, 'counts')).stdout).toBe('')
      const none = await cli.nacre('logs', ...server, 'none')
      expect([none.code, none.stderr]).toEqual([
        1,
        expect.stringContaining("no process 'none': see nacre ps --all"),
      ])
    }))
})

describe('nacre attach', () => {
  it('types into a terminal that others may not use, has its size, and leaves it', () =>
    withServer(async ({ sandbox, server }) => {
      const shell = await sandbox.startProcess(
        'stty -echo; while read -r x; do echo "got $x, $(stty size)"; done',
        {
          processId: 'shell',
          pty: true,
        },
      )
      await shell.waitForInput()
      const terminal = await startInTerminal(sandbox, `attach ${server.join(' ')} shell`)
      await until(
        async () => ((await shell.getStatus()) && shell.terminal?.cols === 100) || undefined,
        () => 'not resized',
      )
      await terminal.write('hello\r')
      await terminal.waitForLog('got hello, 30 100')
      await expect(shell.write('no\n')).rejects.toMatchObject({ code: 'HELD' })
      await terminal.write('\x1d')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      expect((await terminal.getLogs()).stdout).toContain('left shell, which continues')
      await shell.write('back\n')
      await shell.waitForLog('got back')
    }))

  it('only looks with --read-only, and ends with the process', () =>
    withServer(async ({ sandbox, server }) => {
      const shell = await sandbox.startProcess('echo before; read -r x; echo "got $x"; exit 5', {
        processId: 'shell',
        pty: { cols: 50, rows: 10 },
      })
      const terminal = await startInTerminal(sandbox, `attach --read-only ${server.join(' ')} shell`)
      await terminal.waitForLog('before')
      await shell.getStatus()
      expect(shell.terminal).toMatchObject({ cols: 50, rows: 10 })
      await shell.write('mine\n')
      await terminal.waitForLog('got mine')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 5 })
    }))

  it('refuses a process without a terminal', () =>
    withServer(async ({ cli, sandbox, server }) => {
      await sandbox.startProcess('sleep 100', { processId: 'plain' })
      const { code, stderr } = await cli.nacre('attach', ...server, 'plain')
      expect([code, stderr]).toEqual([2, expect.stringContaining('plain has no terminal: see nacre logs')])
    }))
})

describe('nacre exec --url', () => {
  it('runs in a session of the server, whose state stays', () =>
    withServer(async ({ cli, sandbox, server }) => {
      await sandbox.createSession({ id: 'one' })
      const first = await cli.nacre(
        'exec',
        ...server,
        '--session',
        'one',
        'cd /usr; word=kept; echo out; echo err >&2; exit 3',
      )
      expect(first).toEqual({ code: 3, stdout: 'out\n', stderr: 'err\n' })
      const env = ['--env', 'A=b']
      const second = await cli.nacre('exec', ...server, '--session', 'one', ...env, 'echo $word $A; pwd')
      expect(second.stdout).toBe('kept b\n/usr\n')
      const input = await cli.start(['exec', ...server, 'sort'], 'b\na\n').ended
      expect(input.stdout).toBe('a\nb\n')
      expect((await cli.nacre('exec', '--session', 'one', 'true')).stderr).toContain('add --url')
      for (const [given, message] of [
        [['--isolation', 'workspace'], 'nacre: --isolation is not possible with --url\n'],
        [['--grace', '1s'], 'nacre: --grace is not possible with --url\n'],
        [
          ['--grace', '1s', '--isolation', 'workspace'],
          'nacre: --grace and --isolation are not possible with --url\n',
        ],
      ] as const)
        expect(await cli.nacre('exec', ...server, ...given, 'true')).toMatchObject({
          code: 2,
          stderr: message,
        })
    }))
})
