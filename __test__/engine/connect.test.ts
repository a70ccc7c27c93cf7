/** A sandbox behind a program that carries its bytes: everything works as over HTTP, whatever is between. */
import { truncateSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { serve } from '@nacre/server'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withProgram } from '../helpers/program.js'
import { all, textOf } from '../helpers/stream.js'
import { attach, pty } from '../helpers/terminal.js'
import { rejectionOf } from '../helpers/thrown.js'

/** Passes everything on, later, as a slow network does. */
const slowly = `
  const { spawn } = require('node:child_process')
  const [file, ...args] = process.argv.slice(1)
  const child = spawn(file, args, { stdio: ['pipe', 'pipe', 'inherit'] })
  const pass = (from, to) => {
    from.on('data', (data) => setTimeout(() => to.write(data), 10))
    from.on('end', () => setTimeout(() => to.end(), 10))
    to.on('error', () => {})
  }
  pass(process.stdin, child.stdin)
  pass(child.stdout, process.stdout)
`

const ways: Array<[string, string[]]> = [
  ['directly', []],
  ['through a shell that becomes the server', ['bash', '-c', 'exec "$@"', 'bash']],
  ['through a shell that waits for it', ['sh', '-c', '"$@"; exit $?', 'sh']],
  ['through pipes', ['sh', '-c', 'cat | "$@" | cat', 'sh']],
  ['behind a banner', ['sh', '-c', 'echo "Welcome! \\004"; printf "no newline"; exec "$@"', 'sh']],
  ['over a slow way', ['node', '-e', slowly]],
]

describe.each(ways)('%s', (_name, through) => {
  it('runs commands, streams, processes, files and terminals', () =>
    withProgram(async ({ sandbox, directory }) => {
      expect(sandbox).toBeInstanceOf(SandboxClient)
      await sandbox.exec('x=ä; cd /usr')
      expect((await sandbox.exec('echo $x $PWD; exit 3')).stdout).toBe('ä /usr\n')
      expect(await rejectionOf(sandbox.exec('exit 3', { check: true }))).toMatchObject({
        code: 'COMMAND_FAILED',
      })
      expect(textOf(await all(sandbox.execStream('cat; seq 3', { input: 'given\n' })))).toBe(
        'given\n1\n2\n3\n',
      )
      const run = sandbox.execStream('cat', { input: 'pipe' })
      await run.write('one\n')
      await run.closeInput()
      expect((await run.result).stdout).toBe('one\n')
      const bytes = Buffer.alloc(3_000_000, 'abc')
      await sandbox.files.write(`${directory}/file`, bytes)
      expect(bytes.equals(await sandbox.files.read(`${directory}/file`, { encoding: 'buffer' }))).toBe(true)
      const terminal = await sandbox.startProcess('read -r line; echo "<$line>"; stty size; read -r line', {
        pty,
      })
      await terminal.write('typed\n')
      await terminal.waitForLog('<typed>')
      await terminal.waitForLog('24 80')
      await terminal.resize(91, 17)
      await terminal.write('\n')
      expect(await terminal.waitForExit()).toMatchObject({ exitCode: 0 })
      const aborted = new AbortController()
      const pending = rejectionOf(
        sandbox.exec('echo on; sleep 60', { signal: aborted.signal, onOutput: () => aborted.abort() }),
      )
      expect(await pending).toMatchObject({ name: 'AbortError' })
      expect((await sandbox.exec('echo $x')).stdout).toBe('ä\n')
    }, through))
})

it('holds up a command whose output is not read, and nothing else', () =>
  withProgram(async ({ sandbox, directory }) => {
    const stream = sandbox.execStream('yes | tee >(head -c 100000000 >/dev/null; touch far) | cat')
    const reader = stream[Symbol.asyncIterator]()
    await reader.next()
    await sleep(500)
    expect(
      (await sandbox.exec('ls', { cwd: directory, sessionId: (await sandbox.createSession()).id })).stdout,
    ).toBe('')
    await reader.return?.()
  }))

it('carries much both ways at once', () =>
  withProgram(async ({ sandbox }) => {
    const bytes = Buffer.alloc(5_000_000, 'x')
    const sessions = await Promise.all(Array.from({ length: 4 }, () => sandbox.createSession()))
    const lengths = sessions.map(async ({ id }) => {
      const [, , { stdout }] = await Promise.all([
        sandbox.files.write(`up-${id}`, bytes),
        sandbox.exec('cat >/dev/null', { input: bytes, sessionId: id }),
        sandbox.execStream('head -c 5000000 /dev/zero', { sessionId: id, maxBuffer: 5_000_000 }).result,
      ])
      return stdout.length
    })
    expect(await Promise.all(lengths)).toEqual([5_000_000, 5_000_000, 5_000_000, 5_000_000])
  }))

it('reports a download that breaks off, and does not take it for the end', () =>
  withProgram(async ({ sandbox, directory }) => {
    const file = path.join(directory, 'file')
    writeFileSync(file, Buffer.alloc(30_000_000))
    const reader = sandbox.files.readStream(file)[Symbol.asyncIterator]()
    await reader.next()
    truncateSync(file, 1000)
    const rest = async () => {
      while (!(await reader.next()).done);
    }
    expect(await rejectionOf(rest())).toMatchObject({ code: 'CONNECTION_FAILED' })
    expect((await sandbox.exec('echo lives')).stdout).toBe('lives\n')
  }))

it('can be served to browsers, with terminals', () =>
  withProgram(async ({ sandbox }) => {
    await using serving = await serve(sandbox, { port: 0 })
    const process = await sandbox.startProcess('read -r line; echo "<$line>"; exit 3', { pty })
    const terminal = await attach(serving.url, process.id)
    terminal.socket.send(Buffer.from('typed\n'))
    await terminal.printed('<typed>')
    expect(await terminal.closed).toMatchObject({ code: 1000 })
  }))

it('stays when requests are aborted at any moment', () =>
  withProgram(async ({ sandbox }) => {
    const abort = async (index: number) => {
      const stop = new AbortController()
      const { signal } = stop
      const { id } = await sandbox.createSession()
      const calls = [
        sandbox.exec('seq 100000', { sessionId: id, signal }),
        sandbox.files.write('file', new Blob([Buffer.alloc(1_000_000)]).stream(), { signal }),
        all(sandbox.files.readStream('/proc/kallsyms', { signal })),
        all(sandbox.execStream('yes', { signal, sessionId: id })),
      ]
      setTimeout(() => stop.abort(), index % 40)
      await Promise.allSettled(calls)
      await sandbox.deleteSession(id)
    }
    await Promise.all(Array.from({ length: 80 }, (_, index) => abort(index)))
    expect((await sandbox.exec('echo lives')).stdout).toBe('lives\n')
  }))
