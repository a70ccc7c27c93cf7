/** Recordings of a sandbox here, and of one behind a server. */
import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { record } from '@nacre/console'
import type { AnySandbox } from 'nacre'
import { SandboxClient } from 'nacre/client'
import { describe, expect, it } from 'vitest'
import { withClient } from '../../../__test__/contract/helper.js'
import { withSandbox } from '../../../__test__/helpers/invariants.js'
import { rejectionOf } from '../../../__test__/helpers/thrown.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { onlyCast, screenAfter, screenOf, withDirectory } from './places.js'

function itRecords(name: string, test: (sandbox: AnySandbox, directory: string) => Promise<void>): void {
  it(`${name}, in this process`, () =>
    withDirectory((directory) => withSandbox(({ sandbox }) => test(sandbox, directory))))
  it(`${name}, over HTTP`, () =>
    withDirectory((directory) =>
      withSandbox((workplace) => withClient(workplace, (client) => test(client, directory))),
    ))
}

describe('a recording of a session', () => {
  itRecords('has its commands, their output and how they ended', async (sandbox, directory) => {
    await sandbox.exec('echo before')
    const recorder = await record(sandbox, { directory })
    await sandbox.exec("printf 'one\\ntwo'; echo err >&2; exit 3")
    await sandbox.exec('for i in 1 2\ndo echo "ä $i"\ndone')
    await recorder.close()
    await sandbox.exec('echo after')
    await recorder.close()
    const cast = onlyCast(directory, 'session-default')
    expect(cast.header).toMatchObject({ version: 3, term: { cols: 120, rows: 40 }, title: 'session default' })
    expect(Math.abs(cast.header.timestamp - Date.now() / 1000)).toBeLessThan(60)
    const markers = cast.events.flatMap(([, code, data]) => (code === 'm' ? [data] : []))
    expect(markers).toEqual(["printf 'one\\ntwo'; echo err >&2; exit 3", 'for i in 1 2'])
    const screen = (await screenOf(cast)).split('\n').slice(1)
    const [first, ...rest] = screen
    expect(first).toBe("$ printf 'one\\ntwo'; echo err >&2; exit 3")
    // The order of the two streams is not known.
    expect(rest.slice(0, 2).join('|').replace('twoerr', 'two|err')).toMatch(/^one\|two\|err$|^err\|one/)
    expect(screen.join('\n')).toMatch(
      /\[exit 3, \d+\.\d s\]\n\$ for i in 1 2\n> do echo "ä \$i"\n> done\nä 1\nä 2\n\[exit 0, \d/,
    )
    expect(cast.output).not.toMatch(/before|after/)
    expect(statSync(directory).mode & 0o777).toBe(0o700)
    for (const file of readdirSync(directory))
      expect([file, statSync(path.join(directory, file)).mode & 0o777]).toEqual([file, 0o600])
  })

  itRecords('ends with the session, and has a file of its own', async (sandbox, directory) => {
    await using recorder = await record(sandbox, { directory })
    const session = await sandbox.createSession({ id: 'one' })
    await session.exec('true')
    await session.delete()
    await sandbox.createSession({ id: 'two' })
    await recorder.close()
    expect(readdirSync(directory)).toEqual(['session-one-0001.cast.gz'])
    expect(onlyCast(directory, 'session-one').events.at(-1)?.slice(1)).toEqual(['x', '0'])
  })

  itRecords('says what was printed too fast', async (sandbox, directory) => {
    const recorder = await record(sandbox, { directory })
    await sandbox.exec('seq 400000; echo end')
    await recorder.close()
    const { output, comments } = onlyCast(directory, 'session-default')
    const missing = [...output.matchAll(/\[(\d+) bytes are missing\]/g)].map(([, bytes]) => Number(bytes))
    expect(comments).toEqual(missing.map((bytes) => `# ${bytes} bytes of output are missing here`))
    const lines = output.split('\n').filter((line) => /^\d+\r$/.test(line))
    expect(lines.length).toBeGreaterThan(1000)
    expect(output).toMatch(/\n400000\r\nend\r\n[^\n]*\[exit 0/)
  })

  itRecords('does not show secrets', async (sandbox, directory) => {
    const recorder = await record(sandbox, { directory, redact: ['topsecret', /key-\d+/] })
    const token = `ghp_${'a'.repeat(36)}`
    await sandbox.exec(`echo topsecret; printf 'top'; sleep 0.005; echo secret; echo key-123 ${token} end`)
    await sandbox.exec(`: ${'x'.repeat(195)}topsecret`)
    const process = await sandbox.startProcess(`printf 'x top'; printf 'secret\\n'; echo ${token}`, {
      pty: true,
    })
    await process.waitForExit()
    await recorder.close()
    for (const name of ['session-default', `process-${process.id}`]) {
      const { output, events, header } = onlyCast(directory, name)
      expect(output + JSON.stringify(events) + header.title).not.toMatch(/topsecret|key-123|ghp_a/)
      expect(output).toContain('[redacted]')
    }
  })
})

describe('a recording of a process', () => {
  itRecords(
    'ends with the screen of its terminal, with its size and its exit code',
    async (sandbox, directory) => {
      const recorder = await record(sandbox, { directory })
      const process = await sandbox.startProcess(
        "stty -echo; trap 'stty size; exit 4' WINCH; printf '\\033[2J\\033[5;10Hhere\\033[31m red ä'; echo; read -r x",
        { pty: { cols: 60, rows: 10 }, processId: 'draws' },
      )
      await process.waitForLog('red')
      await process.waitForInput()
      await process.resize(70, 12)
      await process.write('go\n')
      await process.waitForExit()
      const { stdout } = await process.getLogs()
      await recorder.close()
      const cast = onlyCast(directory, 'process-draws')
      expect(cast.header.term).toMatchObject({ cols: 60, rows: 10 })
      expect(cast.events.filter(([, code]) => code !== 'o').map((event) => event.slice(1))).toEqual([
        ['r', '70x12'],
        ['x', '4'],
      ])
      expect(cast.output).toBe(stdout)
      expect(await screenOf(cast)).toBe(await screenAfter(70, 12, stdout))
    },
  )

  itRecords(
    'has the lines of one without a terminal, and begins before the recorder',
    async (sandbox, directory) => {
      const process = await sandbox.startProcess('echo early; read -r x; echo late >&2; kill $$', {
        input: 'pipe',
      })
      await process.waitForLog('early')
      const recorder = await record(sandbox, { directory })
      await process.write('\n')
      await process.waitForExit()
      await recorder.close()
      const { output, events } = onlyCast(directory, `process-${process.id}`)
      expect(output).toBe('early\r\nlate\r\n')
      expect(events.at(-1)?.slice(1)).toEqual(['x', '143'])
    },
  )

  itRecords('has what was printed until the recorder ends', async (sandbox, directory) => {
    const recorder = await record(sandbox, { directory })
    const process = await sandbox.startProcess('echo so far; exec sleep 100')
    await process.waitForLog('so far')
    await recorder.close()
    expect(onlyCast(directory, `process-${process.id}`).output).toBe('so far\r\n')
    await process.kill()
  })
})

describe('record', () => {
  it('refuses what it cannot use before anything is recorded', () =>
    withDirectory((directory) =>
      withSandbox(async ({ sandbox }) => {
        const refused = async (options: unknown) =>
          (await rejectionOf(record(sandbox, options as never))).message
        expect(await refused({})).toContain('record needs the option directory')
        expect(await refused({ directory, limit: 5 })).toContain('limit')
        expect(await refused({ directory, redact: ['abc'] })).toContain('4 or more characters')
        expect(await refused({ directory: '/dev/null/none' })).toContain(
          'cannot be used for recordings: ENOTDIR',
        )
        mkdirSync(directory)
        chmodSync(directory, 0o777)
        expect(await refused({ directory })).toContain('chmod 700')
      }),
    ))
})

describe('a hostile server', () => {
  it('cannot name files elsewhere', () =>
    withDirectory(async (directory) => {
      const send = (events: object[]) => events.map((data) => `data: ${JSON.stringify(data)}\n\n`).join('')
      const command = { id: '1', command: 'x'.repeat(5000), pid: 1, time: new Date(), sessionId: '../../out' }
      const server = createServer((request, response) => {
        response.setHeader('x-nacre-instance', 'one')
        if (!request.url?.startsWith('/v1/events'))
          return void response.writeHead(200, { 'content-type': 'application/json' }).end('{"processes":[]}')
        response.writeHead(200, { 'content-type': 'text/event-stream' }).end(
          send([
            { type: 'begin', cursor: 1 },
            { type: 'commandStarted', cursor: 2, ...command },
            {
              type: 'processStarted',
              cursor: 3,
              ...command,
              id: '../../pid',
              terminal: { cols: 0, rows: 1e9 },
            },
            { type: 'sessionEnded', cursor: 4, time: new Date(), sessionId: '../../out' },
            { type: 'end' },
          ]),
        )
      }).listen(0, '127.0.0.1')
      await once(server, 'listening')
      const { port } = server.address() as AddressInfo
      const client = new SandboxClient({ url: `http://127.0.0.1:${port}` })
      const recorder = await record(client, { directory })
      await until(
        () => readdirSync(directory).some((file) => file.endsWith('.gz')) || undefined,
        () => String(readdirSync(directory)),
      )
      await recorder.close()
      expect(readdirSync(directory)).toEqual(['session-.._.._out-0001.cast.gz'])
      expect(readdirSync(path.dirname(directory))).toEqual(['recordings'])
      server.closeAllConnections()
      server.close()
    }))
})

it('a resize that is reported after the last output comes before the end', () =>
  withDirectory(async (directory) => {
    const frame = (data: object) => `data: ${JSON.stringify({ time: new Date(), ...data })}\n\n`
    const started = { type: 'processStarted', cursor: 2, sessionId: 's', command: 'x', pid: 1 }
    const feeds: ServerResponse[] = []
    const server = createServer((request, response) => {
      response.setHeader('x-nacre-instance', 'one')
      if (request.url === '/v1/processes') return void response.end('{"processes":[]}')
      response.setHeader('content-type', 'text/event-stream')
      if (!request.url?.startsWith('/v1/events')) {
        const output = { type: 'stdout', cursor: 4, data: 'x' }
        const exit = { type: 'exit', exitCode: 4, signal: null, reason: 'exit' }
        return void response.end(frame(output) + frame(exit) + frame({ type: 'end' }))
      }
      feeds.push(response)
      const begin = frame({ type: 'begin', cursor: feeds.length > 1 ? 4 : 1 })
      const terminal = { cols: 60, rows: 10 }
      response.write(begin + (feeds.length > 1 ? '' : frame({ ...started, id: 'p', terminal })))
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    const recorder = await record(new SandboxClient({ url: `http://127.0.0.1:${port}` }), { directory })
    // What is written has waited for longer than the end.
    await holds(() => readdirSync(directory).some((file) => statSync(path.join(directory, file)).size > 0))
    const ended = {
      type: 'processEnded',
      cursor: 4,
      id: 'p',
      exitCode: 4,
      signal: null,
      reason: 'exit',
      killedBy: null,
    }
    feeds[0]?.write(frame({ type: 'processResized', cursor: 3, id: 'p', cols: 70, rows: 12 }) + frame(ended))
    await recorder.close()
    const { events } = onlyCast(directory, 'process-p')
    expect(events.map((event) => event.slice(1))).toEqual([
      ['o', 'x'],
      ['r', '70x12'],
      ['x', '4'],
    ])
    server.closeAllConnections()
    server.close()
  }))

describe('a recording whose file a command has replaced', () => {
  const replacements: [name: string, replace: (file: string, secret: string) => void][] = [
    ['by a link', (file, secret) => symlinkSync(secret, file)],
    ['by another name of a file', (file, secret) => linkSync(secret, file)],
    ['by a pipe', (file) => execFileSync('mkfifo', [file])],
    ['by a file', (file) => writeFileSync(file, 'forged')],
  ]
  for (const [name, replace] of replacements)
    it(`reads and changes nothing else, and ends, ${name}`, () =>
      withDirectory((directory) =>
        withSandbox(async ({ sandbox, directory: work }) => {
          const secret = path.join(work, 'secret')
          writeFileSync(secret, 'hidden')
          const warnings: string[] = []
          const logger = { ...console, debug() {}, info() {}, warn: (text: string) => warnings.push(text) }
          const recorder = await record(sandbox, { directory, logger })
          await sandbox.exec('echo before')
          const file = await until(
            () => readdirSync(directory).find((entry) => statSync(path.join(directory, entry)).size > 0),
            () => 'nothing is recorded',
          )
          const place = path.join(directory, file)
          rmSync(place)
          replace(place, secret)
          await sandbox.exec('echo after')
          await recorder.close()
          expect(readFileSync(secret, 'utf8')).toBe('hidden')
          expect(readdirSync(directory)).toEqual([file])
          expect(warnings.join()).toContain('cannot be compressed')
        }),
      ))
})
