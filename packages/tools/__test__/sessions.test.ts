import { createTools } from '@nacre/tools'
import { describe, expect, it } from 'vitest'
import { linesOf } from '../../../__test__/helpers/failing-proxy.js'
import { withProxy } from '../../../__test__/helpers/proxied-client.js'
import { freePort, serverCommand } from '../../../__test__/helpers/serving.js'
import { until } from '../../../__test__/helpers/until.js'
import { itWithTools, timeless, withTools } from './places.js'

const quoted = (words: string[]) => words.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ')

describe('sessions', () => {
  itWithTools('opens, lists and ends sessions', async ({ call, directory, sandbox }) => {
    expect((await call('sessions')).text).toBe('[sessions: 0]')
    expect((await call('sessions', { open: 'other', cwd: '/usr' })).text).toBe('[session other | cwd /usr]')
    await call('bash', { command: 'x=1', session: 'other' })
    expect((await call('bash', { command: 'echo "$x,$PAGER"', session: 'other' })).text).toMatch(/\n1,cat$/)
    expect((await call('bash', { command: 'echo "$x,"; pwd' })).text.split('\n').slice(1)).toEqual([
      ',',
      directory,
    ])
    await call('bash', { command: 'sleep 600 # long', session: 'other', yield_after: 0 })
    expect(timeless((await call('sessions')).text)).toBe(
      '[sessions: 2]\nother\n  r4 (T): sleep 600 # long\nmain',
    )
    expect((await call('sessions', { open: 'other' })).text).toContain('[error] SESSION_ALREADY_EXISTS: ')
    expect((await call('sessions', { end: 'other' })).isError).toBe(false)
    expect((await call('wait', { id: 'r4' })).text).toMatch(/^\[killed/)
    expect((await call('bash', { command: 'true', session: 'other' })).text).toContain('Sessions: main.')
    expect(await sandbox.getSession('other')).toBeNull()
  })

  itWithTools('uses a session of the application, and does not end it', async ({ call, sandbox, tools }) => {
    const session = await sandbox.createSession({ id: 'prepared' })
    await session.exec('x=prepared')
    expect((await call('bash', { command: 'echo $x', session: 'prepared' })).text).toMatch(/\nprepared$/)
    await tools.close()
    expect((await session.exec('echo $x')).stdout).toBe('prepared\n')
    await sandbox.deleteSession('prepared')
  })

  it('ends all that it has opened, also if a service cannot be ended', () =>
    withProxy(async ({ client, proxy, sandbox }) => {
      const tools = createTools(client)
      await tools.call('service', { name: 'web', command: 'sleep 600' })
      await tools.call('bash', { command: 'sleep 600', yield_after: 0 })
      proxy.requests.splice(0)
      proxy.fails = (line) => line.endsWith('/kill')
      await tools.close()
      expect(linesOf(proxy)).toContainEqual(expect.stringMatching(/^POST .*kill$/))
      const open = (await sandbox.listSessions()).map(({ id }) => id)
      expect(open).not.toContain('main')
    }))

  itWithTools('opens the session main again when it has ended', async ({ call, sandbox }) => {
    await call('bash', { command: 'x=1' })
    await sandbox.deleteSession('main')
    await until(
      async () => ((await call('bash', { command: 'echo "x$x"' })).isError ? undefined : true),
      () => 'the session stays lost',
    )
    expect((await call('bash', { command: 'echo "x$x"' })).text).toMatch(/\nx$/)
  })

  const ALONE = { requireSession: true, maxSessions: 2 }
  itWithTools(
    'needs a handle with requireSession, and keeps handles apart',
    async ({ call, tools, sandbox }) => {
      for (const { name, inputSchema } of tools.list) {
        expect(inputSchema.properties).toHaveProperty('session')
        expect(inputSchema.required.includes('session')).toBe(name !== 'sessions')
      }
      expect((await call('bash', { command: 'true' })).text).toContain('"session" is missing')
      expect((await call('sessions')).text).toContain('[error] SESSION_NOT_FOUND: ')
      const handles: string[] = []
      for (const name of ['a', 'a']) {
        const { text, data } = await call('sessions', { open: name })
        expect(text).toMatch(/^\[session s-[\w-]{22} \| cwd \/.*\]$/)
        handles.push(data.session ?? '')
      }
      const [one, two] = handles
      expect((await call('sessions', { open: 'c' })).text).toContain('[error] TOO_MANY_SESSIONS: ')
      for (const session of [one, two]) {
        expect((await call('bash', { command: 'sleep 600', yield_after: 0, session })).data.id).toBe('r1')
      }
      expect((await call('sessions', { session: one })).text).toContain('[sessions: 1]\na\n  r1')
      expect((await call('sessions', { end: one })).isError).toBe(false)
      const gone = await call('wait', { id: 'r1', session: one })
      expect(gone.text).toBe((await call('wait', { id: 'r1', session: 's-AAAAAAAAAAAAAAAAAAAAAA' })).text)
      expect((await call('wait', { id: 'r1', session: two, seconds: 0 })).text).toContain('r1 still runs')
      const ids = (await sandbox.listSessions()).map(({ id }) => id)
      expect(ids.some((id) => handles.includes(id))).toBe(false)
    },
    ALONE,
  )
})

describe('service', () => {
  itWithTools('starts a server, shows it and kills it', async ({ call }) => {
    const port = await freePort()
    const command = quoted(serverCommand({ port }))
    expect((await call('service', { name: 'web', command, port })).text).toMatch(
      new RegExp(`^\\[service web runs \\| port ${port}\\]`),
    )
    expect(await (await fetch(`http://127.0.0.1:${port}`)).text()).toBe('hello')
    await until(
      async () => ((await call('service', { name: 'web' })).text.includes(']\nlistening') ? true : undefined),
      () => 'its output is not shown',
    )
    expect((await call('service', { name: 'web', command, port })).text).toContain(
      '[error] PROCESS_ALREADY_EXISTS: ',
    )
    expect((await call('sessions')).text).toContain('service web: runs')
    expect((await call('kill', { id: 'web' })).text).toBe('[service web killed]')
    expect((await call('kill', { id: 'web' })).text).toBe('[service web had ended]')
    expect((await call('service', { name: 'web' })).text).toContain('[service web has ended: killed')
    expect((await call('service', { name: 'web', command, port })).text).toContain('[service web runs')
  })

  itWithTools('is named by every tool that takes it for something else', async ({ call }) => {
    await call('service', { name: 'web', command: 'echo up; sleep 600' })
    await call('bash', { command: 'sleep 600', yield_after: 0 })
    const isService = /"web" is a service \(runs\), not a run\. Call service with name "web"/
    for (const [tool, input] of [
      ['output', {}],
      ['write', { text: 'x' }],
      ['jobs', {}],
      ['jobs', { cancel: true }],
    ] as const)
      expect((await call(tool, { id: 'web', ...input })).text).toMatch(isService)
    expect((await call('wait', { id: 'r1,web' })).text).toMatch(isService)
    expect((await call('service', { name: 'r1' })).text).toContain('"r1" is a run. Call output or wait')
    expect((await call('output', { id: 'main' })).text).toContain('"main" is a session. Call sessions')
    expect((await call('output', { id: 'r9' })).text).toContain('Running: r1, service web.')
    const { data } = await call('jobs', { start: 'sleep 600' })
    expect((await call('output', { id: data.job })).text).toContain(`Call jobs with id "${data.job}"`)
    await call('jobs', { id: data.job, cancel: true })
    await call('kill', { id: 'r1' })
    await call('kill', { id: 'web' })
    expect((await call('output', { id: 'web' })).text).toContain('"web" is a service (has ended')
    expect((await call('output', { id: 'r9' })).text).toContain('Nothing runs.')
  })

  itWithTools('is ready when it prints a line, or has run for a second', async ({ call }) => {
    const reply = await call('service', {
      name: 'a',
      command: 'echo start; echo port 80; sleep 600',
      log: '^port \\d+$',
    })
    expect(reply.text).toBe('[service a runs]\nstart\nport 80')
    expect((await call('service', { name: 'b', command: 'echo up; sleep 600' })).text).toBe(
      '[service b runs]\nup',
    )
  })

  itWithTools('fails with the last lines when it is not ready', async ({ call }) => {
    const run = (name: string, input: object) =>
      call('service', { name, ready_in: 1, restart: 'never', ...input }).then(({ text }) => text)
    const late = await run('late', { command: 'echo begun; sleep 600', log: 'never' })
    expect(late).toMatch(/^\[error\] PROCESS_READY_TIMEOUT: /)
    expect(late).toContain('begun')
    const ended = await run('ended', { command: 'echo broken; exit 3' })
    expect(ended).toMatch(/^\[error\] PROCESS_EXITED_BEFORE_READY: /)
    expect(ended).toContain('broken')
    expect(await run('both', { command: 'true', log: 'x', port: 1 })).toContain('not both')
    expect(await run('r3', { command: 'true' })).toContain('"name" must be')
    expect((await call('service', { name: 'none' })).text).toContain('There is no service "none"')
  })

  it('replies within maxWait, and wait goes on', () =>
    withTools(
      async ({ call, directory }) => {
        const command = `until [ -e ${directory}/go ]; do sleep 0.05; done; echo ready; sleep 600`
        const starts = await call('service', { name: 'web', command, log: 'ready', ready_in: 60 })
        expect(timeless(starts.text)).toBe('[service web starts | T]')
        await call('bash', { command: `touch ${directory}/go` })
        await until(
          async () =>
            (await call('wait', { id: 'web' })).text === '[service web runs]\nready' ? true : undefined,
          () => 'it does not become ready',
        )
      },
      { maxWait: 500 },
    ))
})

describe('jobs', () => {
  itWithTools('starts, reads, lists and cancels jobs', async ({ call, sandbox }) => {
    const { data, text } = await call('jobs', { start: 'echo begun; exec sleep 600' })
    const id = data.job ?? ''
    expect(text).toBe(`[job ${id} started]\n[use jobs with id "${id}"]`)
    const read = await until(
      async () => {
        const { text } = await call('jobs', { id })
        return text.includes('begun') ? text : undefined
      },
      () => 'there is no output',
    )
    expect(read).toBe(`[job ${id} | running | next: cursor 6]\nbegun`)
    expect((await call('jobs')).text).toContain(`\n${id} | running | echo begun; exec sleep 600`)
    expect((await call('jobs', { id, cancel: true, cursor: 6 })).text).toBe(
      `[job ${id} | cancelled, SIGTERM | end]`,
    )
    expect((await call('jobs', { id: 'none' })).text).toContain('[error] JOB_NOT_FOUND: ')
    await sandbox.jobs.remove(id)
  })
})
