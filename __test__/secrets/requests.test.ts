/** Rules for requests by method and path, with real programs and a server with TLS. */
import type { Answer, Denial, NetworkRules, Question, SandboxEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { itHolds, withClient } from '../contract/helper.js'
import { withSandbox } from '../helpers/invariants.js'
import { startProxiedOrigin } from '../helpers/proxied-origin.js'
import { rejectionOf } from '../helpers/thrown.js'

const origin = await startProxiedOrigin()
const { target } = origin

/** Options whose commands may send these requests to the server. */
const only = (rules: string[], network: Partial<NetworkRules> = {}) => ({
  isolation: origin.rules({ requests: { [target]: rules }, ...network }),
})

const request = (method: string, file: string, more = '') =>
  `curl -sS --path-as-is -X ${method} ${more} https://${target}${file} -w '\\n%{http_code}'`
const option = `isolation.network.requests['${target}']`
const refusedBy = (method: string, path: string): Denial => ({
  ...{ kind: 'network', target, rule: option, fix: { option, add: `${method} ${path}` } },
  ...{ request: { method, path }, reason: 'rule' },
  // Each request is that of a process.
  ...{ program: expect.stringMatching(/curl$/), pid: expect.any(Number) },
  command: expect.stringContaining(`curl -sS --path-as-is -X ${method}`),
})

describe('rules for requests', () => {
  const rules = ['GET,HEAD /a/**', 'deny * /b/private/**', '* /b/**']

  for (const version of ['--http1.1', '--http2'])
    itHolds(
      `let requests through, refuse others with a reason, and report these: ${version}`,
      async ({ sandbox }) => {
        origin.seen.length = 0
        for (const [method, path, isAllowed] of [
          ['GET', '/a/x?q=/b', true],
          ['POST', '/a/x', false],
          ['DELETE', '/b/x', true],
          ['GET', '/b/private/x', false],
          ['GET', '/c', false],
          ['GET', '/a/../c', false],
          ['GET', '/a/%2e%2e/c', false],
        ] as const) {
          const { stdout, stderr, denials } = await sandbox.exec(request(method, path, version))
          const allowed = 'Allowed there: GET,HEAD /a/**, * /b/**.'
          const text = `nacre: isolation.network does not allow ${method} https://${target}${path}. ${allowed}`
          expect({ stdout: stdout.trim().replaceAll(/\n+/g, '\n'), stderr, denials }).toEqual({
            stdout: isAllowed ? 'hello\n200' : `${text}\n403`,
            stderr: '',
            denials: isAllowed ? [] : [refusedBy(method, path)],
          })
        }
        expect(origin.seen.map(({ url }) => url)).toEqual(['/a/x?q=/b', '/b/x'])
      },
      { options: only(rules) },
    )

  it('are events, which have no query', () =>
    withSandbox(
      async ({ sandbox }) => {
        const abort = new AbortController()
        const events = sandbox.events({ signal: abort.signal })
        await sandbox.exec(request('POST', '/a/x?token=secret'))
        for await (const event of events)
          if (event.type === 'denied') {
            expect(event.denial).toEqual(refusedBy('POST', '/a/x'))
            break
          }
        abort.abort()
      },
      { options: only(rules) },
    ))

  it('ask a function about a method and a path, once for each', () => {
    const asked: Question[] = []
    const ask = (question: Question): Answer => {
      asked.push(question)
      return question.request?.path === '/yes' ? 'session' : 'deny'
    }
    return withSandbox(
      async ({ sandbox }) => {
        const { stdout, denials } = await sandbox.exec(
          [
            request('POST', '/yes?a'),
            request('POST', '/yes?b'),
            request('POST', '/no'),
            request('GET', '/yes'),
          ].join('; '),
        )
        expect(stdout.match(/\d{3}(?=hello|nacre|\n|$)/g)).toEqual(['200', '200', '403', '403'])
        expect(denials).toEqual([refusedBy('POST', '/no'), refusedBy('GET', '/yes')])
        expect(asked.map(({ target, request }) => ({ target, request }))).toEqual([
          { target, request: { method: 'POST', path: '/yes' } },
          { target, request: { method: 'POST', path: '/no' } },
        ])
      },
      { options: only(['ask POST /**'], { ask }) },
    )
  })

  it('ask a client over HTTP, and report to it', () =>
    withSandbox(
      (workplace) =>
        withClient(workplace, async (client) => {
          const events: SandboxEvent[] = []
          const reading = (async () => {
            for await (const event of client.events()) {
              events.push(event)
              if (event.type === 'asked') await client.answer(event.id, 'deny')
              if (event.type === 'denied') break
            }
          })()
          const { stdout, denials } = await client.exec(request('POST', '/x'))
          expect(stdout).toContain('403')
          expect(denials).toEqual([refusedBy('POST', '/x')])
          await reading
          expect(
            events.filter(({ type }) => type === 'asked' || type === 'answered' || type === 'denied'),
          ).toMatchObject([
            { type: 'asked', target, request: { method: 'POST', path: '/x' } },
            { type: 'answered', request: { method: 'POST', path: '/x' }, answer: 'deny' },
            { type: 'denied', denial: refusedBy('POST', '/x') },
          ])
          expect(await client.questions()).toEqual([])
        }),
      { options: only(['ask POST /**'], { ask: true }) },
    ))

  it('of a session apply in addition to those of its sandbox', () =>
    withSandbox(
      async ({ sandbox }) => {
        const network = { allow: [], requests: { [target]: ['GET /a/x', '* /b/**'] } }
        const session = await sandbox.createSession({ isolation: { network } })
        const status = async (method: string, path: string) =>
          (await session.exec(request(method, path))).stdout.split('\n').at(-1)
        expect(await status('GET', '/a/x')).toBe('200')
        expect(await status('GET', '/a/y')).toBe('403')
        expect(await status('PUT', '/b/y')).toBe('200')
        expect(await status('PUT', '/b/private/y')).toBe('403')
        const more = { network: { allow: [], requests: { 'other.test': ['* /**'] } } }
        const error = await rejectionOf(sandbox.createSession({ isolation: more }))
        expect(error.message).toContain("isolation.network of a session must be as strict as the sandbox's")
      },
      { options: only(rules) },
    ))

  itHolds(
    'that cannot be read are refused for a session, too',
    async ({ sandbox }) => {
      const network = { allow: [], requests: { [target]: ['GET /a;b'] } }
      const error = await rejectionOf(sandbox.createSession({ isolation: { network } }))
      expect(error).toMatchObject({ code: 'INVALID_OPTION' })
      expect(error.message).toContain(`isolation.network.requests['${target}'][0] matches no request`)
    },
    { options: only(rules) },
  )

  it('hold in a fork, and after a rollback', () =>
    withSandbox(
      async ({ sandbox }) => {
        await using fork = await sandbox.fork()
        expect((await fork.exec(request('POST', '/a/x'))).denials).toEqual([refusedBy('POST', '/a/x')])
        await sandbox.rollback((await sandbox.checkpoint()).id)
        expect((await sandbox.exec(request('POST', '/a/x'))).denials).toEqual([refusedBy('POST', '/a/x')])
      },
      { options: { ...only(rules), workspace: 'copy-on-write' } },
    ))
})
