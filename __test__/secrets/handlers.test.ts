/** Functions that answer requests, and that know values, with real programs and a server with TLS. */
import { type NetworkRules, type RequestHandler, Sandbox } from 'nacre'
import { describe, expect, it } from 'vitest'
import { withClient } from '../contract/helper.js'
import { startHost } from '../helpers/host.js'
import { withSandbox } from '../helpers/invariants.js'
import { collecting } from '../helpers/memory.js'
import { startProxiedOrigin, VALUE } from '../helpers/proxied-origin.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

const HOST = 'api.mock.test'
const origin = await startProxiedOrigin()
const { target } = origin

const network = (rules: Partial<NetworkRules>) => ({ isolation: origin.rules(rules) })
const handle = (handler: RequestHandler, more: Partial<NetworkRules> = {}) =>
  network({ handle: { [HOST]: handler }, ...more })
const url = `https://${HOST}`

describe('a handler', () => {
  for (const version of ['--http1.1', '--http2'])
    it(`answers in place of a host that does not exist: curl ${version}`, () =>
      withSandbox(
        async ({ sandbox }) => {
          const { stdout, stderr } = await sandbox.exec(
            `curl -sS ${version} --suppress-connect-headers -D - -X PUT --data-binary hi -H 'X-A: ü' '${url}/a/b?c=d' | tr -d '\\r'`,
          )
          expect(stderr).toBe('')
          expect(stdout).toMatch(/^HTTP\/\S+ 201/)
          expect(stdout).toContain('x-b: 1')
          expect(stdout.match(/^set-cookie: .*$/gim)).toEqual(['set-cookie: a=1', 'set-cookie: b=2'])
          expect(stdout.endsWith(JSON.stringify(['PUT', `${url}/a/b?c=d`, 'hi', 'default']))).toBe(true)
        },
        {
          options: handle(async (request, { sessionId }) => {
            const headers = new Headers({ 'x-b': '1' })
            for (const cookie of ['a=1', 'b=2']) headers.append('set-cookie', cookie)
            const { method, url } = request
            return Response.json([method, url, await request.text(), sessionId], { status: 201, headers })
          }),
        },
      ))

  it('answers HEAD, and statuses without a body', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(
          `curl -sS -I ${url}/200 -o /dev/null -w '%{http_code} '; curl -sS ${url}/204 -w '%{http_code} '; curl -sS ${url}/404 -w ' %{http_code}'`,
        )
        expect(stdout).toBe('200 204 no 404')
      },
      {
        options: handle(({ url, method }) => {
          const status = Number(new URL(url).pathname.slice(1))
          return new Response(status === 204 || method === 'HEAD' ? null : 'no', { status })
        }),
      },
    ))

  it('streams bodies in both directions, exactly', () =>
    withSandbox(
      async ({ sandbox }) => {
        const { stdout, stderr } = await sandbox.exec(
          `head -c 5000000 /dev/urandom > data; curl -sS --data-binary @data ${url} | cmp - data && echo same; rm data`,
        )
        expect({ stdout, stderr }).toEqual({ stdout: 'same\n', stderr: '' })
      },
      { options: handle(({ body }) => new Response(body)) },
    ))

  it('sends live what it has, and learns that the program is gone', () => {
    const aborted: string[] = []
    return withSandbox(
      async ({ sandbox }) => {
        const process = await sandbox.startProcess(`curl -sSN ${url}/live`)
        await process.waitForLog('first')
        await process.kill()
        await until(
          () => aborted.length === 1,
          () => 'the signal is not aborted',
        )
      },
      {
        options: handle(({ signal }) => {
          signal.addEventListener('abort', () => aborted.push('gone'))
          return new Response(
            new ReadableStream({
              start(controller) {
                controller.enqueue(new TextEncoder().encode('first\n'))
              },
            }),
          )
        }),
      },
    )
  })

  it('that fails is a 500 without the reason, which the logger gets', () => {
    const errors: string[] = []
    const logger = { debug() {}, info() {}, warn() {}, error: (text: string) => void errors.push(text) }
    const handlers: RequestHandler[] = [
      () => {
        throw new Error('the reason')
      },
      async () => 'no response' as never,
      () => Response.error(),
    ]
    return withSandbox(
      async ({ sandbox }) => {
        for (const path of ['0', '1', '2']) {
          const { stdout } = await sandbox.exec(`curl -sS ${url}/${path} -w '%{http_code}'`)
          expect(stdout).toBe(
            `nacre: the handler of ${HOST} failed. The host program's log has the reason.\n500`,
          )
        }
        expect(errors).toHaveLength(3)
        expect(errors[0]).toContain(`isolation.network.handle['${HOST}']: Error: the reason`)
        for (const error of errors.slice(1)) expect(error).toContain('the function must return a Response')
      },
      {
        options: {
          ...handle((request, context) => {
            const index = Number(new URL(request.url).pathname.slice(1))
            return (handlers[index] as RequestHandler)(request, context)
          }),
          logger,
        },
      },
    )
  })

  it('sends a request on with another header, within the rules and with the secret, which it never sees', () => {
    const seen: (string | null)[] = []
    const forward: RequestHandler = async (request, context) => {
      seen.push(request.headers.get('authorization'))
      const headers = new Headers(request.headers)
      headers.set('x-added', 'yes')
      const { url, method } = request
      const path = url.endsWith('/elsewhere') ? '/secret' : new URL(url).pathname
      const reply = await context.forward(new Request(new URL(path, url), { method, headers }))
      return new Response(`${reply.status} ${await reply.text()}`, { headers: { 'x-reply': 'own' } })
    }
    const TOKEN = { value: VALUE, hosts: [target] }
    return withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(
          `printf %s "$TOKEN"; curl -sS -H "Authorization: Bearer $TOKEN" https://${target}/echo; curl -sS https://${target}/elsewhere`,
        )
        const placeholder = stdout.slice(0, VALUE.length)
        expect(seen).toEqual([`Bearer ${placeholder}`, null])
        expect(origin.seen.at(-1)).toMatchObject({ authorization: `Bearer ${VALUE}` })
        expect(origin.seen.at(-1)?.headers).toMatchObject({ 'x-added': 'yes', host: target })
        expect(stdout).toContain(`200 {"url":"/echo"`)
        expect(stdout).toContain(`403 nacre: isolation.network does not allow GET https://${target}/secret`)
        expect(stdout).not.toContain(VALUE)
      },
      {
        options: network({
          secrets: { TOKEN },
          requests: { [target]: ['GET /echo', 'GET /elsewhere'] },
          handle: { [target]: forward },
        }),
      },
    )
  })

  it('keeps nothing of its requests but their signals, which are aborted nevertheless', async () => {
    const network = {
      allow: [],
      authorities: [origin.authority],
      requests: { [target]: ['* /**'] },
    }
    // What was in use in a turn of the event loop is only collected after it.
    const host = startHost(`${collecting}
      const collectAll = async () => {
        for (let time = 0; time < 2; time++) {
          await new Promise((resolve) => setImmediate(resolve))
          collect()
        }
      }
      const live = ({ signal }) => {
        signal.addEventListener('abort', () => print('aborted.'))
        return new Response(new ReadableStream({ start: (controller) => controller.enqueue(Buffer.from('first\\n')) }))
      }
      const stopping = async (_, { forward }) => {
        const stop = new AbortController()
        const endless = { method: 'POST', body: new ReadableStream(), duplex: 'half', signal: stop.signal }
        const sent = forward(new Request('https://${target}/echo', endless)).catch(({ name }) => name)
        await collectAll()
        stop.abort()
        return new Response(await sent)
      }
      const handle = { '${HOST}': live, '${target}': stopping }
      const network = { ...${JSON.stringify(network)}, handle }
      const sandbox = new Sandbox({ isolation: { filesystem: { write: [] }, network, processes: 'own' } })
      const main = async () => {
        const process = await sandbox.startProcess('curl -sSN ${url}/live')
        await process.waitForLog('first')
        await collectAll()
        await process.kill()
        print((await sandbox.exec('curl -sS -m 20 https://${target}/')).stdout + '.')
        await sandbox.destroy()
      }
      main()
    `)
    await host.printed('aborted.\n')
    await host.printed('AbortError.\n')
    expect(await host.ended()).toBe(0)
  })

  it('sends requests to no other host, and none after its own', async () => {
    const failures: unknown[] = []
    let late: (() => Promise<Response>) | undefined
    await withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec(`curl -sS https://${target}/`)
        expect(failures).toEqual([
          expect.objectContaining({ message: `forward sends requests to https://${target} alone` }),
          expect.objectContaining({ message: `forward sends requests to https://${target} alone` }),
        ])
        await until(
          async () => (await rejectionOf((late as () => Promise<Response>)())).name === 'TypeError',
          () => 'the call still forwards',
        )
      },
      {
        options: network({
          handle: {
            [target]: async (_, { forward }) => {
              for (const url of ['https://other.test/', `http://${target}/`])
                failures.push(await rejectionOf(forward(new Request(url))))
              late = () => forward(new Request(`https://${target}/`))
              return new Response('done')
            },
          },
        }),
      },
    )
  })

  it('comes after rules, and a session has its own first', () =>
    withSandbox(
      async ({ sandbox }) => {
        const fetched = async (place: Pick<Sandbox, 'exec'>, method = 'GET') =>
          (await place.exec(`curl -sS -X ${method} ${url}/ -w ' %{http_code}'`)).stdout
        expect(await fetched(sandbox)).toBe('of the sandbox 200')
        expect(await fetched(sandbox, 'POST')).toContain('403')
        const rules = { allow: [], handle: { [HOST]: () => new Response('of the session') } }
        const session = await sandbox.createSession({ isolation: { network: rules } })
        expect(await fetched(session as never)).toBe('of the session 200')
        expect(await fetched(session as never, 'POST')).toContain('403')
        await withClient({ sandbox } as never, async (client) => {
          const error = await rejectionOf(client.createSession({ isolation: { network: rules } }))
          expect(error.message).toContain(`isolation.network.handle['${HOST}:443'] must not be a function`)
        })
      },
      { options: handle(() => new Response('of the sandbox'), { requests: { [HOST]: ['GET /**'] } }) },
    ))

  it('serves 64 requests at once, and not one more', () => {
    let [now, most] = [0, 0]
    let open = () => {}
    const opened = new Promise<void>((resolve) => {
      open = resolve
    })
    return withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec(
          `for n in {1..100}; do echo "url = ${url}/$n"; echo 'output = "/dev/stdout"'; done > many; curl -sS -Z --parallel-max 100 -K many; rm many`,
        )
        expect(stdout).toHaveLength(300)
        expect(most).toBe(64)
      },
      {
        options: handle(async () => {
          most = Math.max(most, ++now)
          if (now === 64) setImmediate(open)
          await opened
          now--
          return new Response('yes')
        }),
      },
    )
  })
})

describe('a value that a function knows', () => {
  const placeholder = 'ghp_0000000000000000000000000000000000aa'
  const secret = (value: () => string | Promise<string>, more: object = {}) =>
    network({ secrets: { TOKEN: { value, hosts: [target], placeholder, ...more } } })
  const used = `curl -sS -H "Authorization: Bearer $TOKEN" https://${target}/echo`

  it('is asked for once, at the first request, and masked', () => {
    let calls = 0
    return withSandbox(
      async ({ sandbox }) => {
        const { stdout } = await sandbox.exec('printf %s "$TOKEN"')
        expect([stdout, calls]).toEqual([placeholder, 0])
        const replies = await sandbox.exec(`${used}; ${used}; (${used} & ${used} & wait)`)
        expect(replies.stdout.match(new RegExp(`"Bearer ${placeholder}"`, 'g'))).toHaveLength(4)
        expect(replies.stdout).not.toContain(VALUE)
        expect(origin.seen.at(-1)?.authorization).toBe(`Bearer ${VALUE}`)
        expect(calls).toBe(1)
      },
      {
        options: secret(async () => {
          calls++
          return VALUE
        }),
      },
    )
  })

  it('that fails is a 502 without the reason, and is asked for again', () => {
    const errors: string[] = []
    const logger = { debug() {}, info() {}, warn() {}, error: (text: string) => void errors.push(text) }
    const values = [undefined, 'short', placeholder, VALUE]
    return withSandbox(
      async ({ sandbox }) => {
        for (const _ of [1, 2, 3]) {
          const { stdout } = await sandbox.exec(`${used} -w '%{http_code}'`)
          expect(stdout).toBe(
            "nacre: the secret TOKEN is unavailable; the host program's log has the reason\n502",
          )
        }
        expect((await sandbox.exec(used)).stdout).toContain(`"Bearer ${placeholder}"`)
        expect(errors).toHaveLength(3)
        expect(errors.join()).not.toContain(VALUE)
      },
      { options: { ...secret(() => values.shift() as string), logger } },
    )
  })

  it('is asked for again after a 401 for a request that had it, and no other value is', () => {
    const calls = { USED: 0, OTHER: 0 }
    const secret = (name: keyof typeof calls) => ({
      value: () => `${name}-${++calls[name]}-value`,
      hosts: [target],
      placeholder: `placeholder-of-${name}`,
    })
    return withSandbox(
      async ({ sandbox }) => {
        const curl = (path: string, more = '') => sandbox.exec(`curl -sS ${more} https://${target}${path}`)
        await curl('/401', '-H "Authorization: Bearer $USED"')
        expect([origin.seen.at(-1)?.authorization, calls]).toEqual([
          'Bearer USED-1-value',
          { USED: 1, OTHER: 1 },
        ])
        await holds(async () => {
          await curl('/401')
          return calls.USED === 2
        })
        expect(calls).toEqual({ USED: 2, OTHER: 1 })
      },
      { options: network({ secrets: { USED: secret('USED'), OTHER: secret('OTHER') } }) },
    )
  })

  it('needs a placeholder, and refresh needs a function', () => {
    for (const [one, text] of [
      [{ value: () => VALUE }, 'TOKEN.placeholder is required, since its value is a function'],
      [{ value: VALUE, refresh: 5000 }, 'TOKEN.refresh needs a function as value'],
      [{ value: () => VALUE, placeholder, refresh: 5 }, 'TOKEN.refresh must be'],
    ] as const) {
      const secrets = { TOKEN: { hosts: [target], ...one } }
      expect(() => new Sandbox(network({ secrets }))).toThrow(text)
    }
  })
})
