/** `nacre exec`: streams, codes, input, and that nothing is left when it is asked to end. */
import { spawnSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { withCli } from '../helpers/cli.js'
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

it('the standard input is passed on, and an input that stays open holds nobody up', () =>
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
    const failed = await nacre('exec', '--json', '--cwd', '/nowhere', 'true')
    expect(failed.code).toBe(1)
    expect(JSON.parse(failed.stderr).error).toMatchObject({ code: 'CWD_NOT_FOUND' })
  }))

it('output that can not be written is a failure with a message', () => {
  for (const options of ['', '--json']) {
    const command = `"$0" dist/cli/main.js exec ${options} 'echo hi' >/dev/full`
    const { status, stderr } = spawnSync('sh', ['-c', command, process.execPath], { encoding: 'utf8' })
    expect([status, stderr]).toEqual([1, expect.stringContaining('ENOSPC')])
  }
})
