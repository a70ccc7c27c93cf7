/** `nacre exec`: streams, codes, input, and that nothing is left when it is asked to end. */
import { spawnSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { inTerminal, withCli } from '../helpers/cli.js'
import { expectNoProcess } from '../helpers/jobs.js'
import * as proc from '../helpers/proc.js'

it('the two streams stay apart, and the exit code is the command’s', () =>
  withCli(async ({ nacre }) => {
    expect(await nacre('exec', 'echo out; echo err >&2; exit 3')).toEqual({
      code: 3,
      stdout: 'out\n',
      stderr: 'err\n',
    })
    expect(await nacre('exec', "bash -c 'kill -SEGV $$'")).toMatchObject({ code: 139 })
    expect(await nacre('exec', 'exit 0')).toEqual({ code: 0, stdout: '', stderr: '' })
  }))

it('one word is shell text, several are words, and options behind the first belong to the command', () =>
  withCli(async ({ nacre }) => {
    expect((await nacre('exec', 'echo $((6 * 7)) | cat')).stdout).toBe('42\n')
    expect((await nacre('exec', 'printf', '%s|', '$HOME', '--json', "it's")).stdout).toBe(
      "$HOME|--json|it's|",
    )
    expect(
      (
        await nacre(
          'exec',
          '--cwd',
          '/',
          '--env',
          'A=1=2',
          '--env',
          'B=',
          '--',
          'sh',
          '-c',
          'echo "$A$B"; pwd',
        )
      ).stdout,
    ).toBe('1=2\n/\n')
  }))

it('the standard input is passed on, and an input that stays open does not delay the end', () =>
  withCli(async ({ start }) => {
    const sorted = start(['exec', 'sort -n'], '30\n7\n')
    expect(await sorted.ended).toMatchObject({ code: 0, stdout: '7\n30\n' })
    const open = start(['exec', 'echo done'])
    expect(await open.ended).toMatchObject({ code: 0, stdout: 'done\n' })
    const live = start(['exec', 'read x; echo "got $x"; read y; echo "got $y"'])
    live.child.stdin?.write('one\n')
    await live.printed('got one')
    live.child.stdin?.write('two\n')
    expect(await live.ended).toMatchObject({ code: 0, stdout: 'got one\ngot two\n' })
  }))

it('a timeout is the code 124, and kills', () =>
  withCli(async ({ nacre, tag }) => {
    const nap = proc.uniqueSleep()
    const { code, stdout, stderr } = await nacre('exec', '--timeout', '500ms', `echo begun; ${nap} & wait`)
    expect([code, stdout]).toEqual([124, 'begun\n'])
    expect(stderr).toMatch(/^nacre: .*500 ms and was ended by SIGTERM after \d+ ms\n$/)
    await expectNoProcess(tag)
  }))

for (const [signal, code] of [
  ['SIGINT', 130],
  ['SIGTERM', 143],
] as const) {
  it(`${signal} kills the command with everything that it has started`, () =>
    withCli(async ({ start, tag }) => {
      const nap = proc.uniqueSleep()
      const running = start(['exec', `setsid ${nap} & bash -c '${nap}; echo' & echo up; wait; wait`])
      await running.printed('up')
      running.child.kill(signal)
      expect(await running.ended).toMatchObject({ code })
      await expectNoProcess(tag)
      expect(proc.runs(nap)).toBe(false)
    }))
}

it('a second SIGINT is in earnest', () =>
  withCli(async ({ start, tag }) => {
    const running = start([
      'exec',
      '--grace',
      '1h',
      'bash -c \'trap "echo no" INT TERM; echo up; while :; do sleep 0.1; done\'',
    ])
    await running.printed('up')
    running.child.kill('SIGINT')
    await running.printed('no')
    running.child.kill('SIGINT')
    expect(await running.ended).toMatchObject({ code: 130 })
    await expectNoProcess(tag)
  }))

it('a reader that leaves ends the command', () =>
  withCli(async ({ start, tag }) => {
    const running = start(['exec', 'yes'])
    await running.printed('y\n')
    running.child.stdout?.destroy()
    expect(await running.ended).toMatchObject({ code: 141 })
    await expectNoProcess(tag)
  }))

it('as JSON it is the whole result', () =>
  withCli(async ({ nacre }) => {
    const { code, stdout } = await nacre('exec', '--json', 'echo out; echo err >&2; exit 3')
    expect(code).toBe(3)
    expect(JSON.parse(stdout)).toMatchObject({
      exitCode: 3,
      stdout: 'out\n',
      stderr: 'err\n',
      success: false,
    })
    const long = JSON.parse((await nacre('exec', '--json', 'seq 2000000')).stdout)
    expect(long.stdout.split('\n').filter((line: string) => line.startsWith('['))).toEqual([
      `[${long.truncated.stdout.toLocaleString('en-US')} bytes omitted]`,
    ])
    expect(long.stdout.indexOf('[')).toBe(long.truncatedAt.stdout)
    const failed = await nacre('exec', '--json', '--cwd', '/proc/nowhere', 'true')
    expect(failed.code).toBe(1)
    expect(JSON.parse(failed.stderr).error).toMatchObject({ code: 'CWD_NOT_FOUND' })
  }))

it('output that cannot be written is a failure with a message', () => {
  for (const options of ['', '--json']) {
    const command = `"$0" dist/cli/main.js exec ${options} 'echo hi' >/dev/full`
    const { status, stderr } = spawnSync('sh', ['-c', command, process.execPath], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([1, expect.stringContaining('ENOSPC')])
  }
})

it('Ctrl-Z stops the command with the program, and fg continues both', () =>
  withCli(async ({ start }) => {
    const running = start(['exec', 'echo $BASHPID; while read -r line; do echo "got $line"; done'])
    await running.printed('\n')
    const pid = (running.child.pid ?? 0) as number
    running.child.kill('SIGTSTP')
    await proc.untilStopped(pid)
    const shell = Number(running.soFar().split('\n')[0])
    await proc.untilStopped(shell)
    running.child.kill('SIGCONT')
    running.child.stdin?.end('a\nb\n')
    expect(await running.ended).toEqual({ code: 0, stdout: `${shell}\ngot a\ngot b\n`, stderr: '' })
  }))

it('--json prints the result so far also after a timeout', () =>
  withCli(async ({ nacre }) => {
    const { code, stdout, stderr } = await nacre(
      'exec',
      '--json',
      '--timeout',
      '300ms',
      'echo begun; sleep 60',
    )
    expect(code).toBe(124)
    expect(JSON.parse(stdout)).toMatchObject({ stdout: 'begun\n', timedOut: true, exitCode: null })
    expect(JSON.parse(stderr)).toMatchObject({ error: { code: 'COMMAND_TIMEOUT' } })
  }))

describe('on a terminal', () => {
  it('typed text is the standard input', () =>
    inTerminal(`exec 'while read -r line; do echo "got <$line>"; done; echo end'`, async (terminal) => {
      await terminal.write('one\n')
      await terminal.waitForLog('got <one>')
      await terminal.write('\x04')
      await terminal.waitForLog(/^end/)
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
    }))

  it('--tty gives the command a terminal of the same size, with Ctrl-C', () =>
    inTerminal(
      `exec --tty 'trap "echo caught; exit 7" INT; stty size; while :; do sleep 0.05; done'`,
      async (terminal) => {
        await terminal.waitForLog('30 100')
        await terminal.resize(120, 40)
        await terminal.write('\x03')
        await terminal.waitForLog('caught')
        expect(await terminal.waitForExit()).toMatchObject({ exitCode: 7 })
      },
    ))

  it('--tty refuses --json', () =>
    withCli(async ({ nacre }) => {
      expect(await nacre('exec', '--tty', '--json', 'true')).toMatchObject({ code: 2, stdout: '' })
    }))
})
