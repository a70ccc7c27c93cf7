/** Requests of commands as events and in a file, with real programs and a server with TLS. */
import {
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { type IsolationRules, type NetworkRules, Sandbox, type SandboxEvent } from 'nacre'
import { describe, expect, it } from 'vitest'
import { type AnySandbox, itHolds, withClient } from '../contract/helper.js'
import { withSandbox } from '../helpers/invariants.js'
import { startProxiedOrigin, VALUE } from '../helpers/proxied-origin.js'
import { temporary } from '../helpers/temporary.js'
import { rejectionOf, thrownBy } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

type Requested = Extract<SandboxEvent, { type: 'request' }>

const origin = await startProxiedOrigin()
const { target: host } = origin
const bearer = '-H "Authorization: Bearer $TOKEN"'
const curl = (file: string, more = '') => `curl -sS ${more} 'https://${host}${file}'`

function rules(network: Partial<NetworkRules> = {}): IsolationRules {
  return origin.rules({
    secrets: { TOKEN: { value: VALUE, hosts: [host] }, OTHER: { value: `${VALUE}x`, hosts: [host] } },
    requests: { [host]: ['deny * /private/**', '* /**'] },
    ...network,
  })
}

/** Reads the events of a sandbox that has some, from now on. Gives the next requests. */
async function watched(sandbox: AnySandbox, count: number): Promise<() => Promise<Requested[]>> {
  const events = sandbox.events({ since: 0 })[Symbol.asyncIterator]()
  await events.next()
  const reading = (async () => {
    const taken: Requested[] = []
    while (taken.length < count) {
      const { value, done } = await events.next()
      if (done) throw new Error(`no more than ${JSON.stringify(taken)}`)
      if (value.type === 'request') taken.push(value)
    }
    await events.return?.()
    return taken
  })()
  reading.catch(() => {})
  return () => reading
}

/** The requests of a file, when it has so many. */
function lines(file: string, count: number): Promise<Record<string, unknown>[]> {
  let text = ''
  return until(
    () => {
      text = existsSync(file) ? readFileSync(file, 'utf8') : ''
      const all = text.split('\n').slice(0, -1)
      return all.length >= count ? all.map((line) => JSON.parse(line)) : undefined
    },
    () => `${file} has ${text}`,
  )
}

const shown = (requests: object[]) => JSON.stringify(requests)

describe('the event of a request', () => {
  for (const [version, protocol] of [
    ['--http1.1', 'http/1.1'],
    ['--http2', 'h2'],
  ] as const)
    itHolds(
      `has what it was, and neither its query nor a value: ${protocol}`,
      async ({ sandbox }) => {
        const session = await sandbox.createSession({ id: 'one' })
        const taking = await watched(sandbox, 3)
        await session.exec(curl('/a/b?query=1', `${version} ${bearer} -d 12345`))
        await session.exec(curl('/private/x', `${version} ${bearer} -X DELETE`))
        await session.exec(curl(`/${'x'.repeat(1500)}`, version))
        const requests = await taking()
        const same = { type: 'request', sessionId: 'one', host, protocol, ms: expect.any(Number) }
        const time = { time: expect.any(Date), cursor: expect.any(Number) }
        expect(requests).toEqual([
          {
            ...{ ...same, ...time, method: 'POST', path: '/a/b', status: 200, sent: 5, received: 5 },
            secrets: ['TOKEN'],
          },
          {
            ...{ ...same, ...time, method: 'DELETE', path: '/private/x', status: 403, sent: 0 },
            ...{ received: expect.any(Number), denied: 'rule' },
          },
          {
            ...{ ...same, ...time, method: 'GET', path: `/${'x'.repeat(999)}`, status: 200, sent: 0 },
            received: 5,
          },
        ])
        expect(requests[1]?.received).toBeGreaterThan(50)
        expect(shown(requests)).not.toContain(VALUE)
        expect(shown(requests)).not.toContain('query')
      },
      { options: { isolation: rules() } },
    )

  itHolds(
    'names a secret of a body, and has no status if the host ends the connection',
    async ({ sandbox }) => {
      await sandbox.exec('true')
      const taking = await watched(sandbox, 2)
      await sandbox.exec(`printf '{"a":"%s"}' "$OTHER" | ${curl('/echo', '-d @-')}`)
      expect(origin.seen.at(-1)?.body).toBe(`{"a":"${VALUE}x"}`)
      const { exitCode } = await sandbox.exec(curl('/cut', '--http1.1'))
      expect(exitCode).not.toBe(0)
      expect(await taking()).toMatchObject([
        { method: 'POST', path: '/echo', status: 200, secrets: ['OTHER'], sent: VALUE.length + 9 },
        { method: 'GET', path: '/cut', status: null, received: 0 },
      ])
    },
    {
      options: {
        isolation: rules({
          secrets: {
            TOKEN: { value: VALUE, hosts: [host], in: ['body'] },
            OTHER: { value: `${VALUE}x`, hosts: [host], in: ['body'] },
          },
        }),
      },
    },
  )
})

describe('isolation.network.log', () => {
  it('is a file with a line for each request, which commands do not see', async () => {
    const file = path.join(temporary('nacre-log-', os.homedir()), 'requests.jsonl')
    await withSandbox(
      async ({ sandbox }) => {
        const network = { allow: [], requests: { [host]: ['* /b/**'] } }
        const session = await sandbox.createSession({ id: 'narrow', isolation: { network } })
        await sandbox.exec(curl('/a', bearer))
        await session.exec(curl('/a'))
        await using fork = await sandbox.fork()
        await fork.exec(curl('/private/x'))
        const all = await lines(file, 3)
        const same = { type: 'request', host, method: 'GET', protocol: 'h2', sent: 0 }
        expect(all).toMatchObject([
          { ...same, sessionId: 'default', path: '/a', status: 200, received: 5, secrets: ['TOKEN'] },
          { ...same, sessionId: 'narrow', path: '/a', status: 403, denied: 'rule' },
          { ...same, sessionId: 'default', path: '/private/x', status: 403, denied: 'rule' },
        ])
        for (const { time } of all) expect(new Date(String(time)).toISOString()).toBe(time)
        expect(statSync(file).mode & 0o777).toBe(0o600)
        for (const one of [sandbox, session, fork]) {
          const { stdout } = await one.exec(
            `cat '${file}' 2>/dev/null; echo x >> '${file}' || rm -f '${file}' || mv '${file}' . || echo refused`,
          )
          expect(stdout).toBe('refused\n')
        }
        expect(await lines(file, 3)).toEqual(all)
      },
      { options: { isolation: rules({ log: file }), workspace: 'copy-on-write' } },
    )
  })

  it('is appended to by several sandboxes, and refused if it has another name', async () => {
    const directory = temporary('nacre-log-', os.homedir())
    const file = path.join(directory, 'requests.jsonl')
    writeFileSync(file, '{"before":true}\n', { mode: 0o600 })
    const options = { isolation: rules({ log: file }) }
    await withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec(curl('/1'))
        // The file is open from its first line on.
        await lines(file, 2)
        await withSandbox(async ({ sandbox }) => void (await sandbox.exec(curl('/2'))), { options })
        expect(await lines(file, 3)).toMatchObject([{ before: true }, { path: '/1' }, { path: '/2' }])
      },
      { options },
    )
    linkSync(file, path.join(directory, 'other'))
    await withSandbox(
      async ({ sandbox }) => {
        expect((await rejectionOf(sandbox.exec('true'))).message).toContain(
          `cannot open isolation.network.log (${file}): it is not a plain file with one name: remove it`,
        )
      },
      { options, destroys: true },
    )
  })

  it('says how many lines are missing, and the logger learns once why; requests go on', async () => {
    const file = path.join(temporary('nacre-log-', os.homedir()), 'requests.jsonl')
    const messages: string[] = []
    const error = (message: string) => void messages.push(message)
    const logger = { debug() {}, info() {}, warn() {}, error }
    await withSandbox(
      async ({ sandbox }) => {
        await sandbox.exec(curl('/1'))
        await lines(file, 1)
        rmSync(file)
        mkdirSync(file)
        for (const path of ['/2', '/3']) expect((await sandbox.exec(curl(path))).stdout).toBe('hello')
        await holds(() => messages.length > 0)
        rmdirSync(file)
        await sandbox.exec(curl('/4'))
        await holds(() => existsSync(file) && readFileSync(file, 'utf8').includes('"/4"'))
        const [gap, ...rest] = await lines(file, 2)
        expect(gap).toMatchObject({ type: 'lost' })
        expect(Number(gap?.count) + rest.length).toBe(3)
        expect(messages.filter((message) => message.includes('network.log'))).toEqual([
          expect.stringContaining(`isolation.network.log cannot be written: make ${file} writable`),
        ])
      },
      { options: { isolation: rules({ log: file }), logger } },
    )
  })

  it('must be outside of what commands may write, and no link', async () => {
    const directory = temporary('nacre-log-')
    const inside = path.join(directory, 'work')
    mkdirSync(inside)
    symlinkSync(inside, path.join(directory, 'link'))
    const of = (log: string, filesystem: object = {}) =>
      (thrownBy(() => new Sandbox({ cwd: inside, isolation: { ...rules({ log }), filesystem } })) as Error)
        .message
    const outside = `isolation.network.log must be outside of what programs may write: choose a place that is not in '${inside}'`
    expect(of('requests.jsonl')).toBe(outside)
    expect(of(path.join(inside, 'requests.jsonl'))).toBe(outside)
    expect(of('../link/requests.jsonl')).toBe(outside)
    const mounts = [{ source: inside, target: '/mnt/nacre' }]
    expect(of('requests.jsonl', { write: [], mounts })).toBe(outside)
    expect(of('../none/requests.jsonl')).toBe(
      `isolation.network.log must be in a directory that exists: create '${directory}/none'`,
    )
    const rule = 'isolation.network.log must be a file, not a directory, a link or a device'
    expect(of('../link')).toContain(rule)
    expect(of('/dev/null')).toContain(rule)
    expect(existsSync(path.join(inside, 'requests.jsonl'))).toBe(false)
  })

  it('is that of the sandbox for each session, and a client cannot name one', async () => {
    const file = path.join(temporary('nacre-log-', os.homedir()), 'requests.jsonl')
    const isolation = (log: string) => ({ isolation: { network: { allow: [], log } } })
    await withSandbox(
      (workplace) =>
        withClient(workplace, async (client) => {
          const { sandbox } = workplace
          const error = await rejectionOf(sandbox.createSession(isolation(`${file}.2`)))
          expect(error.message).toBe(
            "isolation.network.log of a session must be the sandbox's: leave it out, or give it to the sandbox",
          )
          await sandbox.createSession(isolation(file))
          const refused = await rejectionOf(client.createSession(isolation(file)))
          expect(refused.message).toContain('no option "log"')
        }),
      { options: { isolation: rules({ log: file }) } },
    )
  })
})
