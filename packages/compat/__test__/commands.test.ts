/** Commands and terminals of the official SDK. */
import {
  AuthenticationError,
  CommandExitError,
  InvalidArgumentError,
  NotFoundError,
  type Sandbox,
  TimeoutError,
} from 'e2b'
import { describe, expect, it } from 'vitest'
import * as proc from '../../../__test__/helpers/proc.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { withSandbox, withServer } from './place.js'

describe('commands', () => {
  it('have output, an exit code, variables and a directory', () =>
    withServer(async ({ create }) => {
      const sandbox = await create({ envs: { OWN: 'own' } })
      const run = await sandbox.commands.run('echo $OWN $MORE $HOME $USER; pwd; echo err >&2', {
        envs: { MORE: 'more' },
        cwd: '/tmp',
      })
      expect(run).toMatchObject({
        exitCode: 0,
        stdout: 'own more /home/user user\n/tmp\n',
        stderr: 'err\n',
      })
      const failed = await rejectionOf(sandbox.commands.run('echo out; exit 3'))
      expect(failed).toBeInstanceOf(CommandExitError)
      expect(failed).toMatchObject({ exitCode: 3, stdout: 'out\n' })
    }))

  it.each([
    ['kill', (sandbox: Sandbox) => sandbox.kill()],
    ['pause', (sandbox: Sandbox) => sandbox.pause({ keepMemory: false })],
  ])('report that their sandbox has ended: %s', (_, end) =>
    withSandbox(async (sandbox) => {
      let seen = ''
      const command = 'echo out; exec sleep 1000'
      const handle = await sandbox.commands.run(command, {
        background: true,
        onStdout: (text) => {
          seen += text
        },
      })
      await holds(() => seen !== '')
      const ended = rejectionOf(handle.wait())
      await end(sandbox)
      const error = await ended
      expect(error).toBeInstanceOf(TimeoutError)
      expect(error.message).toContain('it was paused, or the sandbox was killed or reached its end of life')
      expect(seen).toBe('out\n')
    }),
  )

  it('find the programs of this machine', () =>
    withSandbox(async (sandbox) => {
      const { stdout } = await sandbox.commands.run('echo "$PATH"')
      expect(stdout).toBe(`${process.env.PATH}\n`)
    }))

  it('pass on all of much output, and characters that arrive in parts', () =>
    withSandbox(async (sandbox) => {
      let length = 0
      const count = (data: string) => {
        length += data.length
      }
      await sandbox.commands.run('head -c 20000000 /dev/zero | tr "\\0" x', { onStdout: count })
      expect(length).toBe(20_000_000)
      const { stdout } = await sandbox.commands.run("printf '\\xc3'; sleep 0.05; printf '\\xbc'")
      expect(stdout).toBe('ü')
    }))

  it('run in the background, read input, and are listed', () =>
    withSandbox(async (sandbox) => {
      const handle = await sandbox.commands.run('cat; echo end', { background: true, stdin: true })
      const { pid } = handle
      expect(await sandbox.commands.list()).toMatchObject([
        { pid, cmd: '/bin/bash', args: ['-l', '-c', 'cat; echo end'] },
      ])
      // Its number is that of the sandbox's own namespace.
      const { stdout } = await sandbox.commands.run(`tr '\\0' ' ' < /proc/${pid}/cmdline`)
      expect(stdout).toBe('/bin/bash -l -c cat; echo end ')
      await sandbox.commands.sendStdin(pid, 'wörd\n')
      await sandbox.commands.closeStdin(pid)
      expect(await handle.wait()).toMatchObject({ exitCode: 0, stdout: 'wörd\nend\n' })
      expect(await sandbox.commands.list()).toEqual([])
    }))

  it('have no input by default', () =>
    withSandbox(async (sandbox) => {
      const handle = await sandbox.commands.run('cat; echo end; sleep 1000', { background: true })
      await expect(sandbox.commands.sendStdin(handle.pid, 'x')).rejects.toThrow('standard input')
      await until(
        () => handle.stdout === 'end\n' || undefined,
        () => handle.stdout,
      )
      await handle.kill()
    }))

  it('end by kill, with everything that they started', () =>
    withSandbox(async (sandbox) => {
      const words = proc.uniqueSleep()
      const handle = await sandbox.commands.run(`setsid ${words} & ${words}`, { background: true })
      await proc.untilRuns(words, 2)
      expect(await sandbox.commands.kill(handle.pid)).toBe(true)
      expect(await rejectionOf(handle.wait())).toMatchObject({ exitCode: -1, error: 'signal: killed' })
      expect(proc.runs(words)).toBe(false)
      expect(await sandbox.commands.kill(handle.pid)).toBe(false)
    }))

  it('end by their timeout, and not when the client disconnects', () =>
    withSandbox(async (sandbox) => {
      const words = proc.uniqueSleep()
      const ended = await rejectionOf(sandbox.commands.run(words, { timeoutMs: 200 }))
      expect(ended).toBeInstanceOf(TimeoutError)
      await until(
        () => !proc.runs(words) || undefined,
        () => `still runs: ${words}`,
      )
      const handle = await sandbox.commands.run('read line; echo got $line', {
        background: true,
        stdin: true,
      })
      await handle.disconnect()
      const again = await sandbox.commands.connect(handle.pid)
      await sandbox.commands.sendStdin(again.pid, 'word\n')
      expect(await again.wait()).toMatchObject({ exitCode: 0, stdout: 'got word\n' })
      expect(await rejectionOf(sandbox.commands.connect(handle.pid))).toBeInstanceOf(NotFoundError)
    }))

  it('reject an unknown user and a missing directory', () =>
    withSandbox(async (sandbox) => {
      const stranger = await rejectionOf(sandbox.commands.run('true', { user: 'stranger' }))
      expect(stranger).toBeInstanceOf(AuthenticationError)
      expect(await sandbox.commands.run('true', { user: 'root' })).toMatchObject({ exitCode: 0 })
      const missing = await rejectionOf(sandbox.commands.run('true', { cwd: '/missing' }))
      expect(missing).toBeInstanceOf(InvalidArgumentError)
      expect(missing.message).toContain("cwd '/missing' does not exist")
    }))
})

describe('terminals', () => {
  it('have a size, input and an exit code', () =>
    withSandbox(async (sandbox) => {
      let output = ''
      const onData = (data: Uint8Array) => {
        output += new TextDecoder().decode(data)
      }
      const { pty } = sandbox
      const terminal = await pty.create({ cols: 90, rows: 20, onData, envs: { OWN: 'own' } })
      await pty.resize(terminal.pid, { cols: 95, rows: 25 })
      await pty.sendInput(terminal.pid, new TextEncoder().encode('stty size; echo "$OWN-$((6*7))"; exit 4\n'))
      expect(await rejectionOf(terminal.wait())).toMatchObject({ exitCode: 4 })
      expect(output).toContain('25 95')
      expect(output).toContain('own-42')
      expect(await rejectionOf(pty.resize(terminal.pid, { cols: 1, rows: 1 }))).toBeInstanceOf(NotFoundError)
    }))

  it('are killed, and go on without a client', () =>
    withSandbox(async (sandbox) => {
      const terminal = await sandbox.pty.create({ cols: 80, rows: 24, onData() {} })
      await terminal.disconnect()
      let output = ''
      const again = await sandbox.pty.connect(terminal.pid, {
        onData(data) {
          output += new TextDecoder().decode(data)
        },
      })
      await sandbox.pty.sendInput(again.pid, new TextEncoder().encode('echo $((6*7))\n'))
      await until(
        () => output.includes('42') || undefined,
        () => output,
      )
      expect(await sandbox.pty.kill(again.pid)).toBe(true)
      expect(await sandbox.pty.kill(again.pid)).toBe(false)
    }))
})
