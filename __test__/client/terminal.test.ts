/** A client types into terminals over a WebSocket where the runtime has one, and by requests elsewhere. */
import { SandboxClient } from 'nacre/client'
import { beforeAll, describe, expect, it } from 'vitest'
import { WebSocket } from 'ws'
import { withServer } from '../helpers/http.js'
import { pty, refuseOnce } from '../helpers/terminal.js'
import { rejectionOf } from '../helpers/thrown.js'
import { holds, until } from '../helpers/until.js'

interface Place {
  client: SandboxClient
  /** The requests that the server has answered, as its log shows them. */
  requests: () => string[]
}

const token = 'a-token-for-tests'

/** A client of a real server, in a runtime with this class for WebSockets. */
async function withClient(
  socketClass: unknown,
  test: (place: Place) => Promise<void>,
  options: object = {},
): Promise<void> {
  const lines: string[] = []
  const logger = { debug() {}, info: (line: string) => lines.push(line), warn() {}, error() {} }
  const own = Object.getOwnPropertyDescriptor(globalThis, 'WebSocket')
  Object.defineProperty(globalThis, 'WebSocket', { value: socketClass, configurable: true, writable: true })
  try {
    await withServer(
      async ({ url }) => {
        const client = new SandboxClient({ url, token, ...options })
        try {
          await test({
            client,
            requests: () => lines.map((line) => line.replace(/~\w+/, '').split(' ').slice(0, 3).join(' ')),
          })
        } finally {
          await client.destroy()
        }
      },
      { token, logger },
    )
  } finally {
    if (own === undefined) Reflect.deleteProperty(globalThis, 'WebSocket')
    else Object.defineProperty(globalThis, 'WebSocket', own)
  }
}

const counting = 'stty raw -echo; echo on; until [ -e go ]; do sleep 0.01; done; head -c 3000000 | sha1sum'

beforeAll(refuseOnce)

const classes: Array<[string, unknown]> = [['ws', WebSocket]]
if (typeof globalThis.WebSocket === 'function') classes.push(['the runtime', globalThis.WebSocket])

describe.each(classes)('typing over the WebSocket of %s', (_name, socketClass) => {
  it('takes one WebSocket, and resolves when the terminal has taken what was written', () =>
    withClient(socketClass, async ({ client, requests }) => {
      const process = await client.startProcess(counting, { processId: 'one', pty })
      await process.waitForLog('on')
      let isWritten = false
      const writes = [
        process.write('a'.repeat(1_000_000)).then(() => {
          isWritten = true
        }),
        process.write('b'.repeat(2_000_000 - 1)),
        process.write('c'),
      ]
      await client.exec('true')
      expect(isWritten).toBe(false)
      await client.exec('touch go')
      await Promise.all(writes)
      await process.waitForExit({ timeout: 10_000 })
      const sum = (
        await client.exec(
          "{ printf '%1000000s' | tr ' ' a; printf '%1999999s' | tr ' ' b; printf c; } | sha1sum",
        )
      ).stdout
      expect((await process.getLogs()).stdout).toContain(sum.trim())
      const terminal = 'GET /v1/processes/one/terminal 101'
      await until(
        () => requests().includes(terminal) || undefined,
        () => requests().join(),
      )
      expect(requests().filter((line) => line.endsWith('101'))).toEqual([terminal])
      expect(requests().filter((line) => line.includes('/input'))).toEqual([])
    }))

  it('rejects when the process has ended, and closes an idle WebSocket', () =>
    withClient(socketClass, async ({ client, requests }) => {
      const process = await client.startProcess('read -r line; echo "<$line>"', {
        processId: 'one',
        pty: true,
      })
      await process.write('typed\n')
      await process.waitForExit({ timeout: 10_000 })
      expect((await process.getLogs()).stdout).toContain('<typed>')
      expect(await rejectionOf(process.write('x'))).toMatchObject({ code: 'INPUT_CLOSED' })
      const idle = await client.startProcess('cat', { processId: 'idle', pty })
      await idle.write('x')
      await holds(() => requests().includes('GET /v1/processes/idle/terminal 101'))
      await idle.write('y\n')
      await idle.waitForLog('xy')
    }))

  it('leaves no write pending when the client is destroyed', () =>
    withClient(socketClass, async ({ client }) => {
      const process = await client.startProcess('stty raw -echo; echo on; sleep 60', { pty })
      await process.waitForLog('on')
      const pending = Promise.allSettled([process.write('x'.repeat(500_000))])
      // The WebSocket is open by then.
      await client.exec('true')
      await client.destroy()
      await pending
      expect(await rejectionOf(process.write('x'))).toMatchObject({ code: 'SANDBOX_DESTROYED' })
    }))
})

describe('typing by requests', () => {
  const typing = async ({ client, requests }: Place) => {
    const process = await client.startProcess('cat', { processId: 'one', pty })
    await Promise.all(Array.from('in order', (letter) => process.write(letter)))
    await process.write('\n')
    await process.waitForLog('in order')
    await until(
      () =>
        requests().filter((line) => line === 'POST /v1/processes/one/input 200').length === 9 || undefined,
      () => requests().join(),
    )
  }

  it('is what a runtime without WebSocket does, in the order of the calls', () =>
    withClient(undefined, typing))

  it('is what a client with headers of its own does', () =>
    withClient(WebSocket, typing, { headers: { authorization: `Bearer ${token}` } }))

  it('is what a client does whose WebSocket is refused', () => {
    class Elsewhere extends WebSocket {
      constructor(url: string, protocols: string[]) {
        super(url.replace('/v1/', '/none/'), protocols)
      }
    }
    return withClient(Elsewhere, typing)
  })
})
