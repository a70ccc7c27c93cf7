/** Questions about hosts that the rules do not name. */
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import type { IsolationRules, NetworkRules, Question, SandboxEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { refusedConnection } from '../helpers/denials.js'
import { withSandbox } from '../helpers/invariants.js'
import { startOuterServer } from '../helpers/outer-server.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'
import { type AnySandbox, itHolds, withClient } from './helper.js'

const target = await startOuterServer((_, response) => response.end('hello'))
const [outer = '', port] = target.split(':')

const asking = (network: Partial<NetworkRules> = {}) => {
  const isolation: IsolationRules = { network: { allow: [], ask: true, ...network } }
  return { options: { isolation } }
}

/** Prints the status of a request. */
const get = (more = '') => `curl -s -o /dev/null -w '%{http_code} ' ${more} http://${target}`

/** The only open question. */
async function asked(sandbox: AnySandbox): Promise<Question> {
  const found = async () => {
    const questions = await sandbox.questions()
    expect(questions.length).toBeLessThan(2)
    return questions[0]
  }
  return until(found, () => 'no question is asked')
}

describe('a host that no list has', () => {
  itHolds(
    'is allowed once, which is for one command, or for the session',
    async ({ sandbox }) => {
      const first = sandbox.exec(`${get()}; ${get()}`)
      const question = await asked(sandbox)
      expect(question).toMatchObject({ sessionId: 'default', target })
      expect(question.expiresAt.getTime() - question.askedAt.getTime()).toBeCloseTo(60_000, -1)
      expect(await sandbox.answer(question.id, 'once')).toBe(true)
      expect(await first).toMatchObject({ stdout: '200 200 ', denials: [] })
      expect(await sandbox.answer(question.id, 'once')).toBe(false)

      const second = sandbox.exec(get())
      await sandbox.answer((await asked(sandbox)).id, 'session')
      expect(await second).toMatchObject({ stdout: '200 ' })
      expect(await sandbox.exec(get())).toMatchObject({ stdout: '200 ' })

      const other = await sandbox.createSession({ id: 'other' })
      const third = other.exec(get())
      expect(await asked(sandbox)).toMatchObject({ sessionId: 'other', target })
      await sandbox.answer((await asked(sandbox)).id, 'deny')
      expect(await third).toMatchObject({ stdout: '403 ' })
      expect(await sandbox.questions()).toEqual([])
    },
    asking(),
  )

  itHolds(
    'is refused by an answer, and not asked for again by the same command',
    async ({ sandbox }) => {
      const command = sandbox.exec(`${get()}; ${get()}`)
      await sandbox.answer((await asked(sandbox)).id, 'deny')
      expect(await command).toMatchObject({
        stdout: '403 403 ',
        denials: [{ ...refusedConnection(target, 'curl'), rule: 'isolation.network.ask' }],
      })
      const again = sandbox.exec(get())
      await sandbox.answer((await asked(sandbox)).id, 'once')
      expect(await again).toMatchObject({ stdout: '200 ', denials: [] })
    },
    asking(),
  )

  itHolds(
    'is refused when the time is over',
    async ({ sandbox }) => {
      const events: SandboxEvent[] = []
      const stop = new AbortController()
      const reading = (async () => {
        for await (const event of sandbox.events({ signal: stop.signal }))
          if (event.type === 'asked' || event.type === 'answered') events.push(event)
      })().catch(() => {})
      expect(await sandbox.exec(get())).toMatchObject({ stdout: '403 ', denials: [{ target }] })
      expect(await sandbox.questions()).toEqual([])
      await holds(() => events.length === 2)
      const common = { sessionId: 'default', target, id: expect.stringMatching(/^\d+$/) }
      expect(events).toEqual([
        {
          type: 'asked',
          ...common,
          cursor: expect.any(Number),
          time: expect.any(Date),
          expiresAt: expect.any(Date),
        },
        { type: 'answered', ...common, cursor: expect.any(Number), time: expect.any(Date), answer: null },
      ])
      stop.abort()
      await reading
    },
    asking({ askTimeout: 200 }),
  )

  itHolds(
    'can be answered when the program has given up: for the next command that connects',
    async ({ sandbox }) => {
      const stream = sandbox.execStream(get())
      const { id } = await asked(sandbox)
      await stream.kill()
      expect(await sandbox.exec('true')).toMatchObject({ exitCode: 0 })
      expect(await sandbox.answer(id, 'once')).toBe(true)
      expect(await sandbox.exec('true')).toMatchObject({ exitCode: 0 })
      expect(await sandbox.exec(get())).toMatchObject({ stdout: '200 ' })
      const again = sandbox.exec(get())
      await sandbox.answer((await asked(sandbox)).id, 'deny')
      expect(await again).toMatchObject({ stdout: '403 ' })
    },
    asking(),
  )

  itHolds(
    'stays allowed once when the command becomes a process',
    async ({ sandbox, directory }) => {
      const stream = sandbox.execStream(`${get()}; until [ -e go ]; do sleep 0.01; done; ${get()}`)
      await sandbox.answer((await asked(sandbox)).id, 'once')
      const process = await stream.detach()
      writeFileSync(path.join(directory, 'go'), '')
      await process.waitForExit()
      expect((await process.getLogs()).stdout).toBe('200 200 ')
    },
    asking(),
  )

  itHolds(
    'is asked for by SOCKS, too',
    async ({ sandbox }) => {
      const command = get('--socks5-hostname "${http_proxy#http://}"')
      const first = sandbox.exec(command)
      await sandbox.answer((await asked(sandbox)).id, 'once')
      expect(await first).toMatchObject({ stdout: '200 ', denials: [] })
      const second = sandbox.exec(command)
      await sandbox.answer((await asked(sandbox)).id, 'deny')
      expect(await second).toMatchObject({ stdout: '000 ', denials: [{ target }] })
    },
    asking(),
  )

  itHolds(
    'is no question any more when its session has ended',
    async ({ sandbox }) => {
      const session = await sandbox.createSession({ id: 'ends' })
      const running = rejectionOf(session.exec(get()))
      const { id } = await asked(sandbox)
      await sandbox.deleteSession('ends')
      expect(await running).toMatchObject({ code: 'SESSION_DESTROYED' })
      await holds(async () => (await sandbox.questions()).length === 0)
      expect(await sandbox.answer(id, 'session')).toBe(false)
    },
    asking(),
  )

  itHolds(
    'is no question on the deny list, at the loopback interface and for metadata services',
    async ({ sandbox }) => {
      const hosts = [target, 'localhost:1', 'a.localhost:1', '127.0.0.2:1', '[::1]:1', '169.254.169.254:80']
      for (const host of hosts) {
        const result = await sandbox.exec(get().replace(target, host).replace('curl', "curl --noproxy ''"))
        expect(result, host).toMatchObject({ stdout: '403 ' })
        const refused = refusedConnection(host, 'curl')
        const denied = { ...refused, rule: 'isolation.network.deny', fix: undefined }
        expect(result.denials, host).toEqual([host === target ? denied : refused])
      }
    },
    asking({ allow: [`${outer}:*`, '169.254.169.254:1'], deny: [`${outer}:*`] }),
  )

  itHolds('needs a question that is open, and one of the answers', async ({ sandbox }) => {
    expect(await sandbox.questions()).toEqual([])
    expect(await sandbox.answer('1', 'once')).toBe(false)
  })

  itHolds(
    'is one question for all connections, at most 16 of a session',
    async ({ sandbox }) => {
      const many = Array.from({ length: 16 }, (_, index) => `192.0.2.77:${index + 1}`)
      const all = [...many, ...many].map((host) => get().replace(target, host))
      const process = await sandbox.startProcess(`${all.join(' & ')} & wait`)
      const targets = async () => (await sandbox.questions()).map((question) => question.target)
      await holds(async () => (await targets()).length === 16)
      expect(await sandbox.exec(get())).toMatchObject({ stdout: '403 ', denials: [{ target }] })
      expect(new Set(await targets())).toEqual(new Set(many))
      for (const { id } of await sandbox.questions()) await sandbox.answer(id, 'deny')
      await process.waitForExit()
      expect((await process.getLogs()).stdout).toBe('403 '.repeat(32))
    },
    asking(),
  )
})

describe('programs that ignore the proxy', () => {
  const python = () =>
    `python3 -c 'import socket\ntry: socket.create_connection(("${outer}", ${port})); print("connected")\nexcept OSError as error: print(error.errno)'`

  it.each([
    ['a blocking call', python, 'connected\n', '101\n'],
    ['one that does not block', () => get("--noproxy '*'"), '200 ', '000 '],
  ])('wait in %s', (_, command, allowed, refused) =>
    withSandbox(async ({ sandbox }) => {
      for (const [answer, stdout] of [
        ['deny', refused],
        ['once', allowed],
      ] as const) {
        const running = sandbox.exec(command())
        await sandbox.answer((await asked(sandbox)).id, answer)
        expect(await running).toMatchObject({ stdout, denials: answer === 'deny' ? [{ target }] : [] })
      }
    }, asking()),
  )
})

describe('a function', () => {
  it('of a session is still the one that decides after a rollback', () =>
    withSandbox(
      async ({ sandbox }) => {
        const ask = () => 'deny' as const
        await sandbox.createSession({ id: 'strict', isolation: { network: { allow: [], ask } } })
        const point = await sandbox.checkpoint()
        await sandbox.deleteSession('strict')
        await sandbox.rollback(point)
        const session = await sandbox.getSession('strict')
        expect(await session?.exec(get())).toMatchObject({ stdout: '403 ' })
        expect(await sandbox.exec(get())).toMatchObject({ stdout: '200 ' })
      },
      {
        options: {
          workspace: 'copy-on-write',
          isolation: { network: { allow: [], ask: () => 'session' } },
        },
      },
    ))

  it('is refused by a client, before anything is sent', () =>
    withSandbox((place) =>
      withClient(place, async (client) => {
        const isolation = { network: { allow: [], ask: () => 'once' as const } }
        const error = await rejectionOf(client.createSession({ id: 'asks', isolation }))
        expect(error).toMatchObject({ code: 'INVALID_OPTION' })
        expect(error.message).toMatch(/ask must not be a function, .*: use true, and questions\(\)/)
        expect(await client.getSession('asks')).toBeNull()
      }),
    ))

  it('is asked at most 100 times in a minute', async () => {
    let asked = 0
    const ask = () => {
      asked++
      return 'deny' as const
    }
    await withSandbox(
      async ({ sandbox }) => {
        const command = `for port in {1..101}; do ${get().replace(target, '192.0.2.77:$port')}; done`
        expect(await sandbox.exec(command)).toMatchObject({ stdout: '403 '.repeat(101) })
        expect(asked).toBe(100)
      },
      { options: { isolation: { network: { allow: [], ask } } } },
    )
  })

  it('decides for the sandbox and for its sessions', async () => {
    const questions: Question[] = []
    const errors: string[] = []
    const logger = { debug() {}, info() {}, warn() {}, error: (message: string) => void errors.push(message) }
    const ask = (question: Question) => {
      questions.push(question)
      return Promise.resolve('once' as const)
    }
    await withSandbox(
      async ({ sandbox }) => {
        expect(await sandbox.exec(get())).toMatchObject({ stdout: '200 ' })
        expect(questions).toEqual([expect.objectContaining({ sessionId: 'default', target })])
        const network = (answer: () => unknown) => ({ network: { allow: [], ask: answer as never } })
        const own = await sandbox.createSession({ isolation: network(() => 'deny') })
        expect(await own.exec(get())).toMatchObject({ stdout: '403 ' })
        const odd = await sandbox.createSession({ isolation: network(() => 'yes') })
        expect(await odd.exec(get())).toMatchObject({ stdout: '403 ' })
        const failing = await sandbox.createSession({
          isolation: network(() => {
            throw new Error('no idea')
          }),
        })
        expect(await failing.exec(get())).toMatchObject({ stdout: '403 ' })
        expect(questions).toHaveLength(1)
        expect(errors).toEqual([
          expect.stringContaining(
            `${target} is refused: OptionError: the answer of isolation.network.ask must be`,
          ),
          expect.stringContaining('no idea'),
        ])
        // A session without rules of its own has those of the sandbox.
        const plain = await sandbox.createSession()
        expect(await plain.exec(get())).toMatchObject({ stdout: '200 ' })
        expect(questions).toHaveLength(2)
      },
      { options: { logger, isolation: { network: { allow: [], ask } } } },
    )
  })
})
