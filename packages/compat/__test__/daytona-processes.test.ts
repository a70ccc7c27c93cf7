/** Commands, code, sessions and terminals of the official SDK of Daytona. */
import {
  CodeLanguage,
  DaytonaCommandAlreadyCompletedError,
  DaytonaConflictError,
  DaytonaNotFoundError,
  DaytonaProcessExecutionTimeoutError,
} from '@daytonaio/sdk'
import { describe, expect, it } from 'vitest'
import * as proc from '../../../__test__/helpers/proc.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { until } from '../../../__test__/helpers/until.js'
import { withDaytona, withDaytonaSandbox } from './daytona-place.js'
import { request } from './place.js'

describe('commands', () => {
  it('have output, an exit code, variables and a directory', () =>
    withDaytona(async ({ create }) => {
      const { process, id } = await create({ envVars: { OWN: 'own' } })
      const command = 'echo $OWN $MORE $HOME $USER $DAYTONA_SANDBOX_ID; echo err >&2; pwd; exit 3'
      expect(await process.executeCommand(command, '/tmp', { MORE: 'more' })).toMatchObject({
        exitCode: 3,
        result: `own more /home/daytona daytona ${id}\nerr\n/tmp\n`,
      })
      await process.executeCommand('mkdir -p a/b')
      expect((await process.executeCommand('pwd', 'a/b')).result).toBe('/home/daytona/a/b\n')
      expect((await process.executeCommand('kill -9 $$')).exitCode).toBe(137)
      expect((await process.executeCommand('true', '/missing')).exitCode).toBe(-1)
    }))

  it('are killed with all that they have started when their time is up', () =>
    withDaytonaSandbox(async ({ process }) => {
      const words = proc.uniqueSleep()
      const failed = await rejectionOf(process.executeCommand(`${words} & ${words}`, undefined, {}, 1))
      expect(failed).toBeInstanceOf(DaytonaProcessExecutionTimeoutError)
      expect(proc.runs(words)).toBe(false)
    }))

  it('return the newest 8 MiB of output, and say what is missing', () =>
    withDaytonaSandbox(async ({ process }) => {
      const { result } = await process.executeCommand('head -c 9437184 /dev/zero | tr "\\0" x; echo end')
      const [note = ''] = result.split('\n', 1)
      expect(note).toBe('[nacre: the first 1048580 bytes of output were dropped]')
      expect(result.length).toBe(note.length + 1 + 8 * 1024 * 1024)
      expect(result.endsWith('xend\n')).toBe(true)
    }))

  it('run at the same time', () =>
    withDaytonaSandbox(async ({ process }) => {
      const both = await Promise.all([
        process.executeCommand('mkfifo pipe; echo word > pipe'),
        process.executeCommand('until test -p pipe; do sleep 0.01; done; cat pipe'),
      ])
      expect(both.map(({ result }) => result)).toEqual(['', 'word\n'])
    }))
})

describe('code', () => {
  it('runs in Python, with arguments and variables', () =>
    withDaytonaSandbox(async ({ process }) => {
      const code = 'import os, sys\nprint(sys.argv[1:], os.environ["A"])\nsys.exit(4)'
      expect(await process.codeRun(code, { argv: ['x y'], env: { A: 'b' } })).toMatchObject({
        exitCode: 4,
        result: "['x y'] b\n",
      })
      expect((await process.codeRun('1 / 0')).result).toContain('ZeroDivisionError')
      const late = process.codeRun('while True: pass', undefined, 1)
      expect(await rejectionOf(late)).toBeInstanceOf(DaytonaProcessExecutionTimeoutError)
    }))

  it('runs in JavaScript', () =>
    withDaytona(async ({ create }) => {
      const { process } = await create({ language: CodeLanguage.JAVASCRIPT })
      const code = 'console.log(process.argv.slice(1).join(), require("node:os").EOL.length)'
      expect(await process.codeRun(code, { argv: ['a', 'b'] })).toMatchObject({
        exitCode: 0,
        result: 'a,b 1\n',
      })
    }))

  it('may be long', () =>
    withDaytonaSandbox(async ({ process }) => {
      const code = `# ${'x'.repeat(1.5 * 1024 * 1024)}\nprint("end")`
      expect(await process.codeRun(code)).toMatchObject({ exitCode: 0, result: 'end\n' })
    }))

  it('in TypeScript needs tsx', () =>
    withDaytona(async ({ create }) => {
      const { process, fs } = await create({ language: CodeLanguage.TYPESCRIPT })
      const env = { PATH: '/usr/bin:/bin:/home/daytona/bin' }
      const missing = await process.codeRun('const a: number = 1', { env })
      expect(missing).toMatchObject({
        exitCode: 127,
        result: expect.stringContaining('npm install --global tsx'),
      })
      expect(await fs.searchFiles('.', '*.ts')).toEqual({ files: [] })
    }))
})

describe('sessions', () => {
  it('keep their state, and have separate streams', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('a b/ü')
      expect(await rejectionOf(process.createSession('a b/ü'))).toBeInstanceOf(DaytonaConflictError)
      const run = (command: string) => process.executeSessionCommand('a b/ü', { command })
      await run('cd /tmp; X=1; f() { echo "f $X"; }')
      const { cmdId, ...output } = await run('f; pwd; echo err >&2; cat; (exit 5)')
      expect(output).toEqual({
        output: expect.any(String),
        stdout: 'f 1\n/tmp\n',
        stderr: 'err\n',
        exitCode: 5,
      })
      expect(await process.getSessionCommandLogs('a b/ü', cmdId)).toMatchObject({ stderr: 'err\n' })
      expect((await process.getSession('a b/ü')).commands).toHaveLength(2)
      expect((await process.listSessions()).map(({ sessionId }) => sessionId)).toEqual(['a b/ü'])
      await process.deleteSession('a b/ü')
      expect(await process.listSessions()).toEqual([])
      for (const call of [run('true'), process.deleteSession('a b/ü')])
        expect(await rejectionOf(call)).toBeInstanceOf(DaytonaNotFoundError)
      expect((await process.getEntrypointSession()).commands).toEqual([])
    }))

  it('run commands in the background, whose logs are followed, and which read input', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('s')
      const command = 'echo ready; echo err >&2; read line; echo "got $line"; exit 6'
      const { cmdId, exitCode } = await process.executeSessionCommand('s', { command, runAsync: true })
      expect(exitCode).toBeUndefined()
      const outputs: string[] = []
      const errors: string[] = []
      const followed = process.getSessionCommandLogs(
        's',
        cmdId,
        (text) => outputs.push(text),
        (text) => errors.push(text),
      )
      await until(
        () => outputs.join('').includes('ready') || undefined,
        () => outputs.join(''),
      )
      expect((await process.getSessionCommand('s', cmdId)).exitCode).toBeUndefined()
      await process.sendSessionCommandInput('s', cmdId, 'wörd')
      await followed
      expect(outputs.join('')).toBe('ready\nwörd\ngot wörd\n')
      expect(errors.join('')).toBe('err\n')
      expect(await process.getSessionCommand('s', cmdId)).toEqual({ id: cmdId, command, exitCode: 6 })
      const late = await rejectionOf(process.sendSessionCommandInput('s', cmdId, 'x'))
      expect(late).toBeInstanceOf(DaytonaCommandAlreadyCompletedError)
    }))

  it('follow all of much output, without echo of input', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('s')
      const run = { command: 'read n; head -c $n /dev/zero | tr "\\0" x', runAsync: true }
      const { cmdId } = await process.executeSessionCommand('s', { ...run, suppressInputEcho: true })
      let length = 0
      const followed = process.getSessionCommandLogs(
        's',
        cmdId,
        (text) => {
          length += text.length
        },
        () => {},
      )
      await process.sendSessionCommandInput('s', cmdId, '3000000')
      await followed
      expect(length).toBe(3_000_000)
    }))

  it('end with everything in them', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('s')
      const words = proc.uniqueSleep()
      const command = `setsid ${words} & echo ready; ${words}`
      const { cmdId } = await process.executeSessionCommand('s', { command, runAsync: true })
      let output = ''
      const followed = process.getSessionCommandLogs(
        's',
        cmdId,
        (text) => {
          output += text
        },
        () => {},
      )
      await proc.untilRuns(words, 2)
      await until(
        () => output === 'ready\n' || undefined,
        () => output,
      )
      await process.deleteSession('s')
      expect(proc.runs(words)).toBe(false)
      await followed
    }))

  it('list the beginning of a long command, which runs as a whole', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('s')
      const command = `echo ${'x'.repeat(100_000)} | wc -c`
      const run = await process.executeSessionCommand('s', { command })
      expect(run.stdout).toBe('100001\n')
      const { commands } = await process.getSession('s')
      expect(commands?.map((one) => one.command)).toEqual([command.slice(0, 1000)])
    }))

  it('keep the newest 64 MiB of output, and return 8 MiB at once', () =>
    withDaytonaSandbox(async ({ process }) => {
      await process.createSession('s')
      const print = (bytes: number) =>
        process.executeSessionCommand('s', { command: `head -c ${bytes} /dev/zero | tr "\\0" x` })
      const first = await print(1000)
      const second = await print(70 * 1024 * 1024)
      expect([second.stdout?.length, second.output?.length]).toEqual([8 * 1024 * 1024, 8 * 1024 * 1024])
      let kept = 0
      const count = (text: string) => {
        kept += text.length
      }
      await process.getSessionCommandLogs('s', second.cmdId, count, count)
      expect(kept).toBeLessThanOrEqual(64 * 1024 * 1024)
      expect(kept).toBeGreaterThan(50 * 1024 * 1024)
      expect((await process.getSessionCommandLogs('s', first.cmdId)).stdout).toBe('')
    }))
})

describe('terminals', () => {
  const decoder = new TextDecoder()

  it('run a login shell of their size, and report their end', () =>
    withDaytonaSandbox(async ({ process }) => {
      let output = ''
      const terminal = await process.createPty({
        id: 't',
        cols: 90,
        rows: 20,
        cwd: '/tmp',
        envs: { OWN: 'own' },
        onData: (data) => {
          output += decoder.decode(data)
        },
      })
      await terminal.waitForConnection()
      expect(await process.getPtySessionInfo('t')).toMatchObject({
        id: 't',
        cols: 90,
        rows: 20,
        active: true,
      })
      await terminal.resize(95, 25)
      await terminal.sendInput('stty size; echo "$OWN $PWD $TERM"; exit 3\n')
      expect(await terminal.wait()).toEqual({ exitCode: 3, error: 'exit code 3' })
      expect(output).toContain('25 95')
      expect(output).toContain('own /tmp xterm-256color')
      expect(await process.listPtySessions()).toEqual([])
      expect((await rejectionOf(process.resizePtySession('t', 80, 24))).message).toContain('has ended')
    }))

  it('are connected to again, and killed', () =>
    withDaytonaSandbox(async ({ process }) => {
      const first = await process.createPty({ id: 't', onData: () => {} })
      await first.waitForConnection()
      await first.sendInput('X=kept\n')
      expect(await rejectionOf(process.createPty({ id: 't', onData: () => {} }))).toBeInstanceOf(Error)
      await first.disconnect()
      let output = ''
      const second = await process.connectPty('t', {
        onData: (data) => {
          output += decoder.decode(data)
        },
      })
      await second.waitForConnection()
      await second.sendInput('echo "<$X>"\n')
      await until(
        () => output.includes('<kept>') || undefined,
        () => output,
      )
      await second.kill()
      expect((await second.wait()).exitCode).toBe(137)
      expect(await rejectionOf(process.getPtySessionInfo('t'))).toBeInstanceOf(DaytonaNotFoundError)
      const missing = await rejectionOf(
        (async () => {
          const terminal = await process.connectPty('t', { onData: () => {} })
          await terminal.waitForConnection()
        })(),
      )
      expect(missing.message).toContain("there is no terminal 't'")
    }))

  it('end with their sandbox', () =>
    withDaytonaSandbox(async (sandbox) => {
      const terminal = await sandbox.process.createPty({ id: 't', onData: () => {} })
      await terminal.waitForConnection()
      const ended = terminal.wait()
      await sandbox.stop()
      await ended
      await sandbox.start()
      expect(await sandbox.process.listPtySessions()).toEqual([])
    }))

  it('are created without a client, and started by the first', () =>
    withDaytonaSandbox(async (sandbox, { server }) => {
      const { origin } = new URL(server.url)
      const headers = { authorization: `Bearer ${server.key}` }
      const create = (body: object) =>
        request(`${origin}/toolbox/${sandbox.id}/process/pty`, {
          method: 'POST',
          headers,
          body: JSON.stringify(body),
        })
      expect((await create({ id: 'lazy', lazyStart: true })).status).toBe(201)
      expect((await create({ id: 'lazy' })).status).toBe(409)
      expect((await create({ id: 'wide', cols: 1001 })).status).toBe(400)
      expect(await sandbox.process.getPtySessionInfo('lazy')).toMatchObject({ active: false })
      const terminal = await sandbox.process.connectPty('lazy', { onData: () => {} })
      await terminal.waitForConnection()
      expect(await sandbox.process.getPtySessionInfo('lazy')).toMatchObject({ active: true })
    }))
})
