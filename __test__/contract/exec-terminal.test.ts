/** Commands of a session on a terminal, here and over HTTP: the session keeps their state. */
import type { ExecStream } from 'nacre'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { enter, plain, withSandboxIn } from '../helpers/modes.js'
import * as proc from '../helpers/proc.js'
import { rejectionOf } from '../helpers/thrown.js'
import { until } from '../helpers/until.js'
import { itHolds } from './helper.js'

const NODE = JSON.stringify(process.execPath)

/** Waits until the output so far contains a text. Needs `logLimit`. */
function printed(stream: ExecStream, text: string): Promise<string> {
  let last = ''
  return until(
    async () => {
      last = (await stream.getLogs()).stdout
      return last.includes(text) ? last : undefined
    },
    () => `not printed: ${text}, but ${JSON.stringify(last)}`,
  )
}

const LOGGED = { pty: true, logLimit: 1_000_000 }

describe('a command with pty', () => {
  // Only the builtin can give the shell a terminal.
  let leave = () => {}
  beforeAll(() => {
    leave = enter({ name: 'with the builtin', env: { NACRE_ENGINE: '' } })
  })
  afterAll(() => leave())

  itHolds('has the terminal, and its state stays in the session', async ({ sandbox }) => {
    await sandbox.exec('y=before; g() { echo g$y; }')
    const command =
      'tty; : < /dev/tty; [[ -t 0 && -t 1 && -t 2 ]] && echo yes; stty size; echo $TERM >&2; g; cd /usr; x=5; f() { echo f; }; trap "echo t" USR1; shopt -s nullglob; false'
    const result = await sandbox.exec(command, { pty: { cols: 100, rows: 30 }, env: { TERM: undefined } })
    expect(result.stdout).toMatch(/^\/dev\/pts\/\d+\r\nyes\r\n30 100\r\nxterm-256color\r\ngbefore\r\n$/)
    expect(result).toMatchObject({ stderr: '', exitCode: 1, cwd: '/usr', sessionRestarted: false })
    const after = await sandbox.exec('pwd; echo $x; f; trap -p USR1; shopt nullglob; tty; : < /dev/tty')
    expect(after.stdout).toBe("/usr\n5\nf\ntrap -- 'echo t' SIGUSR1\nnullglob       \ton\nnot a tty\n")
    expect(after.stderr).toContain('No such device or address')
    // And again, with the same shell.
    const again = await sandbox.exec('pwd; echo $BASHPID', { pty: true })
    expect(again.stdout).toMatch(/^\/usr\r\n\d+\r\n$/)
    expect((await sandbox.exec('echo $BASHPID')).stdout.trim()).toBe(again.stdout.split('\r\n')[1])
  })

  itHolds('reads what is typed, without echo if it wants', async ({ sandbox }) => {
    const stream = sandbox.execStream('read -rsp "Password: " secret; echo; read -r line', LOGGED)
    await printed(stream, 'Password: ')
    expect(await stream.waitForInput()).toMatchObject({ how: 'secret', program: 'bash' })
    await stream.write('hunter2\n')
    await printed(stream, '\r\n')
    await stream.write('shown\n')
    expect((await stream.result).stdout).toBe('Password: \r\nshown\r\n')
    expect((await sandbox.exec('echo "$secret $line"')).stdout).toBe('hunter2 shown\n')
  })

  itHolds('has the end of its input at once with exec, or what it was given', async ({ sandbox }) => {
    expect((await sandbox.exec('cat; cat; read x; cat; echo end', { pty: true })).stdout).toBe('end\r\n')
    expect((await sandbox.exec('cat; cat; read x; echo end', { pty: true, input: 'x\n' })).stdout).toBe(
      'x\r\nx\r\nend\r\n',
    )
    for (const input of ['one\ntwo\n', 'one\ntwo', 'one\ntwo\x04']) {
      const given = await sandbox.exec('cat > given; cat given', { pty: true, input, timeout: 30_000 })
      const [typed, end] = [input.replace('\x04', ''), input.endsWith('\n')]
      const crlf = typed.replaceAll('\n', '\r\n')
      // The terminal echoes what is typed.
      expect(given.stdout).toBe(crlf + crlf)
      expect((await sandbox.files.read('given')).endsWith('\n')).toBe(end)
    }
    const stream = sandbox.execStream('cat', LOGGED)
    await stream.write('x\n')
    await printed(stream, 'x\r\nx\r\n')
    await stream.closeInput()
    expect(await stream.result).toMatchObject({ exitCode: 0, stdout: 'x\r\nx\r\n' })
  })

  itHolds('gets Ctrl-C, which ends only the command', async ({ sandbox }) => {
    await sandbox.exec('x=5')
    const nap = proc.uniqueSleep()
    const child = sandbox.execStream(`x=6; ${nap}; echo never`, LOGGED)
    await proc.untilRuns(nap)
    await child.write('\x03')
    const result = await child.result
    expect(result).toMatchObject({ stdout: '^C', cancelled: false })
    expect(result.exitCode ?? result.signal).toBe(130)
    expect((await sandbox.exec('echo $x')).stdout).toBe('6\n')
    const shell = sandbox.execStream('echo on; read -r line; echo never', LOGGED)
    await printed(shell, 'on')
    await shell.write('\x03')
    expect((await shell.result).stdout).toBe('on\r\n^C')
    // A program that handles it goes on, and so does the command.
    const handled = sandbox.execStream(
      `${NODE} -e 'process.on("SIGINT", () => { console.log("got"); process.exit(3) }); setInterval(() => {}, 1e6); console.log("on")'; echo "code $?"`,
      LOGGED,
    )
    await printed(handled, 'on\r\n')
    await handled.write('\x03')
    expect((await handled.result).stdout).toBe('on\r\n^Cgot\r\ncode 3\r\n')
    expect(await sandbox.exec('echo $x')).toMatchObject({ stdout: '6\n', sessionRestarted: false })
  })

  itHolds('is resized while it runs', async ({ sandbox }) => {
    const program = `process.stdout.on("resize", () => { console.log(process.stdout.columns + " " + process.stdout.rows); process.exit() }); setInterval(() => {}, 1e6); console.log("on")`
    const stream = sandbox.execStream([process.execPath, '-e', program], LOGGED)
    await printed(stream, 'on\r\n')
    expect(await stream.resize(90, 20)).toBe(true)
    expect((await stream.result).stdout).toBe('on\r\n90 20\r\n')
    expect(await stream.resize(1, 1)).toBe(false)
    for (const [cols, rows] of [
      [0, 1],
      [1, 65536],
    ] as const)
      expect(await rejectionOf(stream.resize(cols, rows))).toMatchObject({ code: 'INVALID_OPTION' })
    const plain = sandbox.execStream('true')
    expect(await rejectionOf(plain.resize(1, 1))).toMatchObject({
      ...{ code: 'INVALID_OPTION', message: 'resize needs a command that was started with pty' },
    })
    await plain.result
  })

  itHolds('keeps job control of programs in it, and of the shell', async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const inner = sandbox.execStream('bash --norc -i; echo "back $?"', LOGGED)
    await inner.write(`${nap}\n`)
    await proc.untilRuns(nap)
    await inner.write('\x1a')
    await printed(inner, 'Stopped')
    // The second is for a job that has not ended yet: bash warns of it. Together, since the first may end the command.
    await inner.write('kill %1; exit 7\nexit 7\n')
    expect((await inner.result).stdout).toContain('back 7')
    // The shell itself, in one command and the next.
    for (let round = 0; round < 2; round++) {
      const own = sandbox.execStream('set -m; cat; echo "code $?"; set +m', LOGGED)
      await own.write('x\n')
      await printed(own, 'x\r\nx\r\n')
      await own.write('\x04')
      expect((await own.result).stdout).toBe('x\r\nx\r\ncode 0\r\n')
    }
  })

  itHolds('does not disturb traps, files and jobs of the shell', async ({ sandbox }) => {
    await sandbox.exec('trap "echo hup" HUP; trap "echo cont" CONT; echo kept > kept; exec 7< kept; set -m')
    // Without a fork, with one, and with the shell's own descriptor closed or replaced.
    for (const command of [
      ':',
      'true | true',
      'for fd in /proc/$BASHPID/fd/*; do [[ $(readlink $fd) == /dev/pts/* && ${fd##*/} -gt 9 ]] && eval "exec ${fd##*/}>&-"; done; true | true',
      'for fd in /proc/$BASHPID/fd/*; do [[ $(readlink $fd) == /dev/pts/* && ${fd##*/} -gt 9 ]] && eval "exec ${fd##*/}>&-; exec ${fd##*/}< kept" && echo ${fd##*/} > number; done; true | true',
    ]) {
      expect((await sandbox.exec(command, { pty: true })).stdout, command).toBe('')
      const after = await sandbox.exec('echo after; : < /dev/tty; trap -p HUP CONT')
      expect(after.stdout, command).toBe("after\ntrap -- 'echo hup' SIGHUP\ntrap -- 'echo cont' SIGCONT\n")
      expect(after.stderr).toContain('No such device or address')
    }
    expect((await sandbox.exec('cat <&7; (cat <&$(< number))')).stdout).toBe('kept\nkept\n')
    // With set -m of an earlier command, a program is in the foreground of the terminal, and may read it.
    expect((await sandbox.exec('head -n 1', { pty: true, input: 'read\n' })).stdout).toBe('read\r\nread\r\n')
    const pid = (await sandbox.exec('sleep 600 > /dev/null & echo $!')).stdout.trim()
    expect((await sandbox.exec('jobs -r; echo on', { pty: true })).stdout).toMatch(/Running.*\r\non\r\n$/)
    await sandbox.exec(`kill ${pid}; wait ${pid}`)
  })

  itHolds('leaves no size of a terminal behind', async ({ sandbox }) => {
    await sandbox.exec('export COLUMNS=200; unset LINES')
    const pty = { cols: 100, rows: 30 }
    expect((await sandbox.exec('/bin/true; echo "$COLUMNS $LINES"', { pty })).stdout).toBe('100 30\r\n')
    expect((await sandbox.exec('echo "$COLUMNS [$LINES]"')).stdout).toBe('200 []\n')
    await sandbox.exec('/bin/true; COLUMNS=77', { pty })
    expect((await sandbox.exec('echo "$COLUMNS [$LINES]"')).stdout).toBe('77 []\n')
    const { stdout, sessionRestarted } = await sandbox.exec('set -e; readonly COLUMNS=100; export LINES=30', {
      pty,
    })
    expect([stdout, sessionRestarted]).toEqual(['', false])
    await sandbox.exec(':', { pty })
    const kept = await sandbox.exec('echo "$COLUMNS $LINES $-"')
    expect([kept.stdout, kept.sessionRestarted]).toEqual([expect.stringMatching(/^100 30 .*e/), false])
  })

  itHolds('has a terminal after the shell has taken another one', async ({ sandbox }) => {
    await sandbox.exec(':', { pty: true })
    // The leader of a session without a terminal gets a free one that it opens. TIOCSPTLCK and TIOCGPTN, ioctl_tty(2).
    const maker = await sandbox.startProcess([
      'perl',
      '-e',
      '$| = 1; $n = pack("i", 0); open(M, "+<", "/dev/ptmx"); ioctl(M, 0x40045431, $n); ioctl(M, 0x80045430, $n); print unpack("i", $n), "\\n"; sleep 600',
    ])
    await maker.waitForLog(/^\d+$/)
    const number = (await maker.getLogs()).stdout.trim()
    expect((await sandbox.exec(`exec 8< /dev/pts/${number}; : < /dev/tty && tty < /dev/tty`)).stdout).toBe(
      '/dev/tty\n',
    )
    expect((await sandbox.exec(': < /dev/tty && tty && echo on', { pty: true })).stdout).toMatch(
      /^\/dev\/pts\/\d+\r\non\r\n$/,
    )
  })

  itHolds('is killed with everything that it started', async ({ sandbox }) => {
    await sandbox.exec('x=5')
    const [inside, outside] = [proc.uniqueSleep(), proc.uniqueSleep()]
    const late = sandbox.execStream(`setsid ${outside} & ${inside}`, { pty: true, timeout: 3000 })
    for (const nap of [inside, outside]) await proc.untilRuns(nap)
    expect(await rejectionOf(late.result)).toMatchObject({
      code: 'COMMAND_TIMEOUT',
      result: { timedOut: true },
    })
    expect(proc.runs(inside) || proc.runs(outside)).toBe(false)
    const killed = sandbox.execStream('read -r line', { pty: true })
    await killed[Symbol.asyncIterator]().next()
    expect(await killed.kill()).toBe(true)
    expect(await killed.result).toMatchObject({ cancelled: true })
    const abort = new AbortController()
    const onStart = () => abort.abort()
    expect(
      await rejectionOf(
        sandbox.exec('trap "" TERM INT HUP; read -r line; sleep 600', {
          pty: true,
          input: 'x\n',
          signal: abort.signal,
          onStart,
          forceKillAfterDelay: 50,
        }),
      ),
    ).toMatchObject({ name: 'AbortError' })
    expect((await sandbox.exec('echo $x')).stdout).toBe('5\n')
  })

  itHolds('ends with exit, and survives the death of its shell', async ({ sandbox }) => {
    await sandbox.exec('x=5')
    expect(await sandbox.exec('x=6; echo bye; exit 3', { pty: true })).toMatchObject({
      ...{ exitCode: 3, stdout: 'bye\r\n', sessionRestarted: false },
    })
    expect(await sandbox.exec('echo on; kill -9 $$', { pty: true })).toMatchObject({
      ...{ signal: 'SIGKILL', stdout: 'on\r\n', sessionRestarted: true },
    })
    // The shell that has taken over can have a terminal, too.
    expect((await sandbox.exec('echo $x; : < /dev/tty && tty', { pty: true })).stdout).toMatch(
      /^6\r\n\/dev\/pts/,
    )
    const replaced = await sandbox.exec('exec printf "%s" replaced', { pty: true })
    expect(replaced).toMatchObject({ stdout: 'replaced', exitCode: 0, sessionRestarted: true })
    expect((await sandbox.exec('echo $x; [ -t 0 ] && echo yes', { pty: true })).stdout).toBe('6\r\nyes\r\n')
  })

  itHolds('leaves jobs alone at its end, and is refused beside jobs of others', async ({ sandbox }) => {
    const nap = proc.uniqueSleep()
    const first = await sandbox.exec(`${nap} > /dev/null 2>&1 & echo $!`, { pty: true })
    const pid = first.stdout.trim()
    await proc.untilRuns(nap)
    const refused = await rejectionOf(sandbox.exec('touch ran', { pty: true, env: { A: '1' } }))
    expect(refused).toMatchObject({
      code: 'TERMINAL_UNAVAILABLE',
      message: expect.stringContaining(`process ${pid} of an earlier command would get its signals`),
    })
    expect(await sandbox.files.exists('ran')).toBe(false)
    expect((await sandbox.exec('echo "$A"; jobs -r | wc -l')).stdout).toBe('\n1\n')
    const code = (await sandbox.exec('kill %1; wait %1; echo $?')).stdout.trim()
    expect(code).toBe('143')
    expect((await sandbox.exec('echo ok', { pty: true })).stdout).toBe('ok\r\n')
    // A process in a group of its own does not get the signals.
    const other = proc.uniqueSleep()
    await sandbox.exec(`setsid ${other} > /dev/null 2>&1 &`)
    await proc.untilRuns(other)
    const stream = sandbox.execStream('echo on; read -r line', LOGGED)
    await printed(stream, 'on')
    await stream.write('\x03')
    await stream.result
    expect(proc.runs(other)).toBe(true)
  })

  itHolds('can become a process, which keeps the terminal', async ({ sandbox }) => {
    await sandbox.exec('x=5')
    const stream = sandbox.execStream('x=6; read -r line; echo "<$line>"; stty size', LOGGED)
    await stream.waitForInput()
    const process = await stream.detach()
    expect(await process.getStatus()).toBe('running')
    expect(process.terminal).toMatchObject({ cols: 80, rows: 24, echo: true })
    expect((await sandbox.exec('echo $x; echo on', { pty: true })).stdout).toBe('5\r\non\r\n')
    expect(await process.resize(70, 7)).toBe(true)
    await stream.write('typed\n')
    expect(await process.waitForExit()).toMatchObject({ exitCode: 0 })
    expect((await process.getLogs()).stdout).toBe('typed\r\n<typed>\r\n7 70\r\n')
  })

  itHolds('has all of its output, within its limits', async ({ sandbox }) => {
    const lines = await sandbox.exec('stty -onlcr; seq 200000', { pty: true, maxBuffer: 2_000_000 })
    expect(lines.stdout).toBe(Array.from({ length: 200_000 }, (_, index) => `${index + 1}\n`).join(''))
    const bytes = await sandbox.exec('stty raw; printf "\\0\\1\\377\\r\\n\\t"', {
      pty: true,
      encoding: 'buffer',
    })
    expect([...bytes.stdout]).toEqual([0, 1, 255, 13, 10, 9])
    const much = await sandbox.exec('head -c 20000000 /dev/zero', { pty: true, maxBuffer: 1000 })
    expect(much).toMatchObject({ exitCode: 0, truncated: { stdout: 19_999_000, stderr: 0 } })
    const excessive = await rejectionOf(sandbox.exec('yes', { pty: true, outputLimit: 10_000 }))
    expect(excessive).toMatchObject({ code: 'OUTPUT_LIMIT' })
  })

  itHolds('ends with its session', async ({ sandbox }) => {
    const session = await sandbox.createSession()
    const stream = session.execStream('read -r line', { pty: true })
    await stream[Symbol.asyncIterator]().next()
    await session.delete()
    expect(await rejectionOf(stream.result)).toMatchObject({ code: 'SESSION_DESTROYED' })
  })

  itHolds(
    'works in an isolated session',
    async ({ sandbox }) => {
      const stream = sandbox.execStream(': < /dev/tty && tty; read -rs x; cd /usr', LOGGED)
      expect(await stream.waitForInput()).toMatchObject({ how: 'secret' })
      await stream.write('secret\n')
      expect((await stream.result).stdout).toMatch(/^\/dev\/pts\/\d+\r\n$/)
      expect((await sandbox.exec('pwd; echo $x')).stdout).toBe('/usr\nsecret\n')
      const reader = sandbox.execStream('echo on; cat', LOGGED)
      await printed(reader, 'on')
      await reader.write('\x03')
      await reader.result
      expect((await sandbox.exec('echo $x')).stdout).toBe('secret\n')
    },
    { options: { isolation: 'workspace' } },
  )

  it.each(plain)('is refused in plain mode: $name', (mode) =>
    withSandboxIn(mode, async ({ sandbox }) => {
      expect(await rejectionOf(sandbox.exec('touch ran', { pty: true }))).toMatchObject({
        code: 'TERMINAL_UNAVAILABLE',
        message: 'the session cannot give its command a terminal in plain mode: use startProcess',
      })
      expect((await sandbox.exec('ls')).stdout).toBe('')
    }),
  )
})
