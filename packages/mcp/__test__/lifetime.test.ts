/** Nothing of a server is left, however it or its client ends. `withBase` checks that. */
import { execFileSync } from 'node:child_process'
import { closeSync, openSync, readdirSync, writeSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { expectNoProcess } from '../../../__test__/helpers/jobs.js'
import * as proc from '../../../__test__/helpers/proc.js'
import { ERAS, MAIN, overHttp, type Running, start, untilGone, untilRuns, withBase } from './places.js'

/** Starts a command by plain messages, of which a part is not below its shell. */
async function runForever(
  server: Running,
  more = '',
  write = (text: string) => server.send(text),
): Promise<string> {
  const words = proc.uniqueSleep()
  const send = (message: object) => write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  const clientInfo = { name: 'raw', version: '1' }
  send({
    id: 1,
    method: 'initialize',
    params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo },
  })
  send({ method: 'notifications/initialized' })
  const command = `${more} setsid ${words} & ${words}`
  send({ id: 2, method: 'tools/call', params: { name: 'bash', arguments: { command } } })
  await proc.untilRuns(words, 2)
  return words
}

describe('nothing is left over stdio', () => {
  it('after the end of the input', () =>
    withBase(async (base) => {
      const server = start(base, [])
      const words = await runForever(server)
      server.child.stdin?.end()
      expect(await server.ended).toBe(0)
      expect(proc.runs(words)).toBe(false)
      // Nor a file.
      expect(
        readdirSync(base.env.TMPDIR ?? '', { recursive: true }).filter((name) =>
          /nacre-mcp/.test(String(name)),
        ),
      ).toEqual([])
    }))

  it.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)('after %s', (signal) =>
    withBase(async (base) => {
      const server = start(base, [])
      const words = await runForever(server)
      server.child.kill(signal)
      expect(await server.ended).toBe(0)
      expect(proc.runs(words)).toBe(false)
    }),
  )

  it('after a second signal, which does not wait for programs that ignore the first', () =>
    withBase(async (base) => {
      const server = start(base, [])
      const words = await runForever(server, 'trap "" TERM;')
      server.child.kill('SIGTERM')
      server.child.kill('SIGINT')
      expect([0, 1]).toContain(await server.ended)
      await untilGone(words)
    }))

  it('after kill -9 of the server', () =>
    withBase(async (base) => {
      const server = start(base, [])
      const words = await runForever(server)
      server.child.kill('SIGKILL')
      expect(await server.ended).toBe('SIGKILL')
      await untilGone(words)
    }))

  it('after kill -9 of the client', () =>
    withBase(async (base) => {
      const words = proc.uniqueSleep()
      const program = path.join(__dirname, 'client-program.mjs')
      const client = start(base, [program, MAIN, `setsid ${words} & ${words}`], [process.execPath])
      await proc.untilRuns(words, 2)
      client.child.kill('SIGKILL')
      await untilGone(words)
    }))

  const run = `'${process.execPath}' '${MAIN}'; true`
  it.each([
    ['the wrapper', run],
    ['a wrapper that runs it in a shell, like npx', `sh -c "${run}"; true`],
  ])('after kill -9 of %s, while the client holds the input', (_, script) =>
    withBase(async (base) => {
      const pipe = path.join(base.directory, 'pipe')
      execFileSync('mkfifo', [pipe])
      // Node closes the input of a program that it has started when that ends, so this is another pipe.
      const held = openSync(pipe, 'r+')
      try {
        const wrapper = start(base, ['-c', script], ['bash'], held)
        const words = await runForever(wrapper, '', (text) => writeSync(held, text))
        wrapper.child.kill('SIGKILL')
        await untilGone(words)
        await expectNoProcess(base.tag)
      } finally {
        closeSync(held)
      }
    }),
  )
})

describe.each(ERAS)('nothing is left over HTTP, for clients of %s,', (era) => {
  it('after a cancel', () =>
    overHttp(async ({ connect }) => {
      const { call } = await connect(era)
      const { data } = await call('sessions', { open: 'a' })
      const words = proc.uniqueSleep()
      const cancelling = new AbortController()
      const command = `setsid ${words} & ${words}`
      const calling = call('bash', { command, session: data.session }, { signal: cancelling.signal })
      await proc.untilRuns(words, 2)
      cancelling.abort()
      await expect(calling).rejects.toThrow()
      await untilGone(words)
    }))

  it.each(['SIGTERM', 'SIGKILL'] as const)('after %s', (signal) =>
    overHttp(async ({ connect, server }) => {
      const { call } = await connect(era)
      const { data } = await call('sessions', { open: 'a' })
      const words = proc.uniqueSleep()
      call('bash', { command: words, session: data.session }).catch(() => {})
      await untilRuns(words)
      server.child.kill(signal)
      expect(await server.ended).toBe(signal === 'SIGTERM' ? 0 : signal)
      await untilGone(words)
    }),
  )
})
