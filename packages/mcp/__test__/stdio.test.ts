import { once } from 'node:events'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { Client as OldClient } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport as OldTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { countTokens } from 'gpt-tokenizer/encoding/o200k_base'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { uniqueSleep } from '../../../__test__/helpers/proc.js'
import { until } from '../../../__test__/helpers/until.js'
import { callsOf, ERAS, MAIN, overStdio, start, untilGone, untilRuns, withBase } from './places.js'

const EIGHT = ['bash', 'wait', 'write', 'output', 'kill', 'service', 'sessions', 'jobs']

describe.each(ERAS)('a client of %s over stdio', (era) => {
  it('gets the tools and instructions', () =>
    overStdio(
      async ({ client }) => {
        const { tools } = await client.listTools()
        expect(tools.map(({ name }) => name)).toEqual(EIGHT)
        expect(tools[0]?.annotations).toEqual({
          readOnlyHint: false,
          destructiveHint: true,
          openWorldHint: true,
        })
        expect(countTokens(JSON.stringify({ tools }))).toBeLessThanOrEqual(1600)
        expect(client.getInstructions()).toMatch(/^A bash shell that keeps its state\./)
        expect(client.getInstructions()?.length).toBeLessThan(2048)
      },
      { era },
    ))

  it('runs commands in a session that keeps its state', () =>
    overStdio(
      async ({ call, directory }) => {
        await call('bash', { command: 'mkdir sub; cd sub; x=5' })
        const { text, isError, data } = await call('bash', { command: 'echo $x; exit 3' })
        expect(text).toMatch(/^\[exit 3 \| \d+ ms \| cwd .*\/sub\]\n5$/)
        expect([isError, data.exitCode, data.cwd]).toEqual([false, 3, path.join(directory, 'sub')])
      },
      { era },
    ))

  it('gets errors that say what to do', () =>
    overStdio(
      async ({ client, call }) => {
        const wrong = await call('bash', { command: 'true', comand: 'true' })
        expect([wrong.isError, wrong.data.code]).toEqual([true, 'INVALID_ARGUMENT'])
        expect(wrong.text).toMatch(
          /^\[error\] INVALID_ARGUMENT: There is no argument "comand"\. Arguments: command, /,
        )
        expect((await call('output', { id: 'r9' })).text).toContain('There is no run "r9"')
        expect((await call('bash', { command: 'true', timeout: '30' })).isError).toBe(false)
        await expect(client.callTool({ name: 'shell', arguments: {} })).rejects.toMatchObject({
          code: -32602,
          message: expect.stringContaining('There is no tool "shell". Tools: bash, wait,'),
        })
      },
      { era },
    ))

  it('gets progress while a command runs', () =>
    overStdio(
      async ({ call, directory }) => {
        const seen: { progress: number; message?: string }[] = []
        const onprogress = (progress: { progress: number; message?: string }) => {
          seen.push(progress)
          if (seen.length === 2) writeFileSync(path.join(directory, 'go'), '')
        }
        const command = 'echo step 1; until [ -e go ]; do sleep 0.05; done; echo done'
        const { text } = await call('bash', { command }, { onprogress })
        expect(text).toMatch(/^\[exit 0 .*\nstep 1\ndone$/s)
        expect(seen[0]).toMatchObject({ progress: 1, message: 'step 1' })
        expect(seen[1]?.progress).toBeGreaterThan(1)
      },
      { era },
    ))

  it('cancels a command with everything it started, and leaves other runs alone', () =>
    overStdio(
      async ({ call }) => {
        const [kept, ended] = [uniqueSleep(), uniqueSleep()]
        await call('bash', { command: kept, yield_after: 0 })
        for (const name of ['bash', 'wait']) {
          const cancelling = new AbortController()
          const input = name === 'bash' ? { command: `setsid ${ended} & ${ended}` } : { id: 'r1' }
          const calling = call(name, input, { signal: cancelling.signal })
          if (name === 'bash') await untilRuns(ended)
          cancelling.abort()
          await expect(calling).rejects.toThrow()
        }
        await untilGone(ended)
        expect((await call('wait', { id: 'r1', seconds: 0 })).text).toMatch(/^\[r1 still runs/)
      },
      { era },
    ))

  it('answers a password prompt', () =>
    overStdio(
      async ({ call }) => {
        const asked = await call('bash', {
          command: 'read -rsp "Password: " p; echo "${#p} characters"',
          pty: true,
        })
        expect(asked.text).toMatch(/^\[r1 waits for a password \(bash\)/)
        expect((await call('write', { id: 'r1', text: 'sesame' })).text).toMatch(/^\[exit 0 .*6 characters$/s)
      },
      { era },
    ))
})

it('a client of the SDK before 2.0 works', () =>
  withBase(async ({ directory, env }) => {
    const client = new OldClient({ name: 'old', version: '1' })
    await client.connect(new OldTransport({ command: process.execPath, args: [MAIN], cwd: directory, env }))
    expect((await client.listTools()).tools.map(({ name }) => name)).toEqual(EIGHT)
    expect((await callsOf(client)('bash', { command: 'echo there' })).text).toContain('\nthere')
    await client.close()
  }))

it('standard output has nothing but messages', () =>
  withBase(async (base) => {
    const server = start(base, [])
    const send = (message: object) =>
      server.child.stdin?.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
    const clientInfo = { name: 'raw', version: '1' }
    server.child.stdin?.write('this is no message\n')
    send({
      id: 1,
      method: 'initialize',
      params: { protocolVersion: '2025-06-18', capabilities: {}, clientInfo },
    })
    send({ method: 'notifications/initialized' })
    send({
      id: 2,
      method: 'tools/call',
      params: { name: 'bash', arguments: { command: 'echo out; echo err >&2' } },
    })
    await until(
      () => (server.stdout().split('\n').length > 2 ? true : undefined),
      () => server.stdout() + server.stderr(),
    )
    server.child.stdin?.end()
    expect(await server.ended).toBe(0)
    const messages = server
      .stdout()
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(messages.map(({ id }) => id)).toEqual([1, 2])
  }))

describe('commands', () => {
  it('do not get variables whose names look like secrets, and replies never show their values', () =>
    overStdio(
      async ({ call }) => {
        const command =
          'echo "[$MY_TOKEN] [$PLAIN]"; echo key-hidden-ghp_0123456789012345678901234567890123456789'
        const { text } = await call('bash', { command })
        expect(text).toContain('\n[] [plain]\nkey-hidden-[redacted]')
        expect((await call('bash', { command: 'echo "$DB_PASSWORD"' })).text).toContain('\n[redacted]')
        expect((await call('bash', { command: 'echo hunter; echo 2-hunter-2 | tr 2 3' })).text).toMatch(
          /\nhunter\n3-hunter-3$/,
        )
      },
      {
        env: { MY_TOKEN: 'abcdefgh', DB_PASSWORD: '2-hunter-2', PLAIN: 'plain' },
        words: ['--env', 'DB_PASSWORD'],
      },
    ))

  it('may write the directory and $TMPDIR only, and what --write names', () =>
    withBase(async ({ directory }) => {
      const other = path.join(directory, 'other')
      const command = `echo x > here; echo x > $TMPDIR/x && echo x > "$XDG_CACHE_HOME/x" && echo private; mkdir -p ${other} && echo x > ${other}/x`
      await overStdio(async ({ call, client }) => {
        // The directory may be in a private /tmp, where it is no error to write.
        expect((await call('bash', { command })).text).toContain('private')
        expect(client.getInstructions()).toContain('--write')
        const { text } = await call('bash', { command: 'echo x > /usr/nacre-refused' })
        expect(text).toMatch(
          /^\[exit 1 .*\| the option --write of the server allows more\]\n.*Read-only file system/,
        )
      })
      expect(existsSync(path.join(other, 'x'))).toBe(false)
      await overStdio(
        async ({ call }) => {
          expect((await call('bash', { command })).data.exitCode).toBe(0)
        },
        { words: ['--write', directory] },
      )
      expect(existsSync(path.join(other, 'x'))).toBe(true)
    }))

  it('wait for the user with --ask, who decides in the console', () =>
    overStdio(
      async ({ call, client, stderr }) => {
        expect(client.getInstructions()).toContain('no network until the user allows each host')
        const started = await call('bash', {
          command: "curl -s -o /dev/null -w '%{http_code}' http://192.0.2.77:9",
          yield_after: 0,
        })
        const [, url = '', token = ''] = /console is at (\S+)\/console#token=(\S+)/.exec(stderr()) ?? []
        const console = new SandboxClient({ url, token })
        const question = await until(
          async () => (await console.questions())[0],
          () => `nothing is asked: ${started.text}`,
        )
        const { text } = await call('wait', { id: 'r1', seconds: 0 })
        expect(text).toMatch(
          /^\[r1 still runs \| .* \| waits to be allowed to connect to 192\.0\.2\.77:9\]\n\[use wait, .*\]\n\[the user can allow it in the console of nacre\]$/,
        )
        await console.answer(question.id, 'deny')
        expect((await call('wait', { id: 'r1' })).text).toMatch(/^\[exit 0 .*\]\n403$/)
        await console.destroy()
      },
      { words: ['--ask', '--console'] },
    ))

  it('have a network with workspace+network, none with workspace, and no isolation with none', () =>
    withBase(async ({ directory }) => {
      const server = createServer((socket) => socket.end()).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const command = `echo x > ${directory}/x; : < /dev/tcp/127.0.0.1/${port}`
      try {
        for (const [preset, hasNetwork, canWrite] of [
          ['workspace+network', true, false],
          ['workspace', false, false],
          ['none', true, true],
        ] as const) {
          const words = ['--isolation', preset]
          await overStdio(
            async ({ call }) => {
              const { data } = await call('bash', { command })
              expect([preset, data.exitCode === 0]).toEqual([preset, hasNetwork])
            },
            { words },
          )
          expect([preset, readdirSync(directory).length > 0]).toEqual([preset, canWrite])
        }
      } finally {
        server.close()
      }
    }))
})

it('options limit what the model can do', () =>
  overStdio(
    async ({ client, call }) => {
      const { tools } = await client.listTools()
      expect(tools.map(({ name }) => name)).toEqual(['bash', 'kill'])
      expect((await call('bash', { command: 'sleep 600' })).text).toMatch(/^\[timed out, killed/)
      const { text } = await call('bash', { command: 'seq 5000' })
      expect(text).toMatch(/characters left out/)
      expect(countTokens(text)).toBeLessThan(300)
    },
    { words: ['--tools', 'bash,kill', '--timeout', '200ms', '--max-tokens', '200'] },
  ))

describe('what people see', () => {
  it('is the console and the recordings, which commands do not', () =>
    overStdio(
      async ({ call, stderr, directory }) => {
        await call('bash', { command: 'echo shown' })
        const [, url = '', token = ''] =
          /the console is at (http:\S+)\/console#token=(\S+)/.exec(stderr()) ?? []
        const client = new SandboxClient({ url, token })
        expect((await client.listSessions()).map(({ id }) => id)).toContain('main')
        expect((await fetch(`${url}/console`)).status).toBe(200)
        expect((await fetch(`${url}/v1/sessions`)).status).toBe(401)
        expect((await call('bash', { command: `ls recordings; echo ${token}` })).text).not.toMatch(
          new RegExp(`cast|${token}`),
        )
        const { text } = await call('bash', { command: 'ls -A recordings' })
        expect(text).not.toContain('cast')
        const recorded = () => readdirSync(path.join(directory, 'recordings'))[0]
        expect(await until(recorded, () => 'nothing is recorded')).toMatch(/^session-.*-0001\.cast$/)
      },
      { words: ['--console', '--record', 'recordings'] },
    ))
})
