/** The server with its commands in a container, of stand-ins for engines that run the server of nacre on this machine. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { gunzipSync } from 'node:zlib'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'
import { describe, expect, it } from 'vitest'
import { type StandIn, withStandIn } from '../../../__test__/helpers/stand-in-engine.js'
import { temporary } from '../../../__test__/helpers/temporary.js'
import { holds, until } from '../../../__test__/helpers/until.js'
import { type Call, callsOf, clientOf, MAIN, start, withBase } from './places.js'

interface Place {
  engine: StandIn
  call: Call
}

/** A server over stdio whose engine is a stand-in. Afterwards nothing may be left. */
function withContainer(words: string[], test: (place: Place) => Promise<void>): Promise<void> {
  return withStandIn(['docker'], (engine) =>
    withBase(async ({ env: base }) => {
      const { PATH = '', XDG_CACHE_HOME = '', NODE = '' } = process.env
      const env = { ...base, PATH, XDG_CACHE_HOME, NODE, GIVEN_TOKEN: 'given-token' }
      const args = [MAIN, '--container', '--isolation', 'none', ...words]
      const transport = new StdioClientTransport({
        command: process.execPath,
        args,
        cwd: engine.project,
        env,
        stderr: 'ignore',
      })
      const client = clientOf('2026-07-28')
      await client.connect(transport)
      try {
        await test({ engine, call: callsOf(client) })
      } finally {
        await client.close()
      }
    }),
  )
}

describe('a container', () => {
  it('starts with the first call, and has the project and the variables that are named', () =>
    withContainer(
      ['--env', 'GIVEN_TOKEN', '--image', 'debian:13', '--runtime', 'runsc'],
      async ({ engine, call }) => {
        expect(engine.calls()).toEqual([])
        writeFileSync(path.join(engine.project, 'file'), 'content')
        const { text } = await call('bash', {
          command: 'cat file; echo; test -n "$GIVEN_TOKEN" && echo given; echo $GIVEN_TOKEN',
        })
        expect(text).toMatch(/^\[exit 0 [^\n]*\]\ncontent\ngiven\n\[redacted\]$/)
        expect(engine.calls().filter((line) => line.startsWith('docker run '))).toEqual([
          expect.stringMatching(/--runtime runsc .*debian:13/),
        ])
        expect((await call('bash', { command: 'x=1; cd /; pwd' })).text).toMatch(/\n\/$/)
        expect((await call('bash', { command: 'echo "$x in $PWD"' })).text).toContain('1 in /')
      },
    ))

  it('that takes long is told of in time, and what failed can be tried again', () =>
    withContainer(['--max-wait', '100ms'], async ({ engine, call }) => {
      const gate = path.join(engine.state, 'gate')
      engine.on('image inspect', `while [ ! -e '${gate}' ]; do sleep 0.05; done; exit 1`)
      const first = await call('bash', { command: 'echo ran' })
      expect(first.text).toMatch(/^\[starts \| [\d.]+ m?s \| [^\]]+\]\n\[nothing has run yet: call again\]$/)
      expect(first).toMatchObject({ isError: false, data: { status: 'starting' } })
      engine.on('pull', 'echo "Error: there is no such image" >&2; exit 1')
      writeFileSync(gate, '')
      const failure = await until(
        async () => {
          const reply = await call('bash', { command: 'echo ran' })
          return reply.isError ? reply : undefined
        },
        () => 'no failure',
      )
      expect(failure.text).toContain('IMAGE_UNAVAILABLE')
      rmSync(path.join(engine.state, 'on-image-inspect'))
      await holds(async () => (await call('bash', { command: 'echo ran' })).text.endsWith('\nran'))
    }))

  it('is recorded until its end, also the output of what still runs', async () => {
    const directory = temporary('nacre-mcp-recordings-')
    await withContainer(['--record', directory, '--console'], async ({ call }) => {
      await call('bash', { command: 'echo shown' })
      const { text } = await call('bash', { command: 'echo begun; exec sleep 1000', yield_after: 1 })
      expect(text).toContain('begun')
    })
    const files = readdirSync(directory)
    expect(files.every((file) => file.endsWith('.cast.gz'))).toBe(true)
    const all = files.map((file) => String(gunzipSync(readFileSync(path.join(directory, file))))).join('')
    expect(all).toMatch(/(?:"|\\r\\n)shown\\r\\n/)
    expect(all).toContain('begun')
  })

  it('that is lost is replaced by the next call', () =>
    withContainer([], async ({ engine, call }) => {
      const { text } = await call('bash', { command: 'lost=1; echo $PPID; cut -d " " -f 4 /proc/$PPID/stat' })
      const [, supervisor = '', server = ''] = /\n(\d+)\n(\d+)$/.exec(text) ?? []
      expect(Number(supervisor)).toBeGreaterThan(1)
      const id = (reply: { data: { id?: string } }) => reply.data.id ?? ''
      const before = id(await call('bash', { command: 'sleep 0.01' }))
      const running = call('bash', { command: 'echo started >started; sleep 1000' })
      await holds(() => existsSync(path.join(engine.project, 'started')))
      process.kill(Number(server), 'SIGKILL')
      expect((await running).text).toMatch(/SANDBOX_LOST|lost/)
      const next = await until(
        async () => {
          const reply = await call('bash', { command: 'echo "new ${lost-shell}"' })
          return reply.text.endsWith('\nnew shell') ? reply : undefined
        },
        () => 'no new sandbox',
      )
      // An id of the lost sandbox names no run of this one.
      expect(Number(id(next).slice(1))).toBeGreaterThan(Number(before.slice(1)) + 1)
      expect((await call('output', { id: before })).data).toMatchObject({ code: 'RUN_NOT_FOUND' })
    }))

  it('is set up before the first command', () =>
    withContainer(['--setup', 'echo ready >set-up'], async ({ call }) => {
      expect((await call('bash', { command: 'cat set-up' })).text).toMatch(/\nready$/)
    }))

  it('has what is mounted, and an own directory', () =>
    withContainer(['--own', 'node_modules', '--mount', '/usr/share'], async ({ engine, call }) => {
      expect((await call('bash', { command: 'echo ran' })).text).toMatch(/\nran$/)
      const [run = ''] = engine.calls().filter((line) => line.startsWith('docker run '))
      expect(run).toMatch(/\/usr\/share/)
      expect(run).toContain(path.join(engine.project, 'node_modules'))
    }))
})

it('isolation in a container protects the programs of git', () =>
  withStandIn(['docker'], (engine) =>
    withBase(async ({ env: base }) => {
      const { PATH = '', XDG_CACHE_HOME = '', NODE = '' } = process.env
      const log = path.join(engine.state, 'settings')
      engine.on('exec', `printf '%s' "$NACRE_INSIDE" >'${log}'`)
      mkdirSync(path.join(engine.project, '.git/hooks'), { recursive: true })
      const env = { ...base, PATH, XDG_CACHE_HOME, NODE }
      const transport = new StdioClientTransport({
        command: process.execPath,
        args: [MAIN, '--container', 'docker', '--write', '/srv'],
        cwd: engine.project,
        env,
        stderr: 'ignore',
      })
      const client = clientOf('2026-07-28')
      await client.connect(transport)
      try {
        await callsOf(client)('bash', { command: 'true' })
        const { isolation } = JSON.parse(readFileSync(log, 'utf8'))
        // Those of a preset protect them, without a list of their own.
        expect(isolation).toMatchObject({
          preset: 'workspace+network',
          filesystem: { write: [engine.project, '/srv'] },
        })
        expect(isolation.filesystem).not.toHaveProperty('protect')
      } finally {
        await client.close()
      }
    }),
  ))

it.each([
  [['--image', 'node:22'], 'add --container'],
  [['--own', 'node_modules'], 'add --container'],
  [['--runtime', 'runsc'], 'add --container'],
  [['--setup', 'true'], 'add --container'],
  [['--container', '--copy-on-write'], '--copy-on-write is not for containers'],
  [['--container', 'lxc'], 'Allowed choices are auto, docker, podman, container'],
])('%j is refused', (words, message) =>
  withBase(async (base) => {
    const server = start(base, words)
    expect(await server.ended).toBe(2)
    expect(server.stderr()).toContain(message)
  }),
)
