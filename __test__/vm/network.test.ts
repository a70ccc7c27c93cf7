/** The network of a virtual machine, by the rules of this machine. Run by `npm run test:vm`. */
import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import net, { type AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { Sandbox } from 'nacre'
import { type EngineOptions, type EngineSandbox, openSandbox } from 'nacre/engine'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rejectionOf } from '../helpers/thrown.js'

const kernel = process.env.NACRE_TEST_OWN_KERNEL ?? ''
const BOOT_MS = 240_000
const MEGABYTES = 8

const digest = (data: Buffer) => createHash('sha256').update(data).digest('hex')

/** A server of this machine, and how often it was reached. */
class Server {
  reached = 0
  readonly #server: net.Server

  constructor(server: net.Server) {
    this.#server = server.on('connection', () => this.reached++)
  }

  static async http(answer: (request: IncomingMessage, response: ServerResponse) => void): Promise<Server> {
    return new Server(http.createServer(answer)).listen()
  }

  /** Clients may end their side first. */
  static async tcp(serve: (socket: net.Socket) => void): Promise<Server> {
    return new Server(
      net.createServer({ allowHalfOpen: true }, (socket) => serve(socket.on('error', () => {}))),
    ).listen()
  }

  async listen(): Promise<this> {
    await once(this.#server.listen(0, '127.0.0.1'), 'listening')
    return this
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  close() {
    this.#server.close()
  }
}

describe(
  'a virtual machine with hosts',
  () => {
    let project: string
    let sandbox: EngineSandbox
    let web: Server
    let forbidden: Server
    let raw: Server
    const asked: string[] = []
    const urls: (string | undefined)[] = []
    const data = randomBytes(MEGABYTES * 1_000_000)
    const output = async (command: string) => {
      const { stdout, stderr } = await sandbox.exec(command)
      return (stdout + stderr).trim()
    }
    /** Runs a program of Node.js in the guest, with `tunnel(port)`, which resolves to a socket. */
    const script = async (name: string, code: string) => {
      const text = `
      const net = require('net')
      const tunnel = (port) => new Promise((resolve, reject) => {
        const socket = net.connect({ port: 3128, host: '127.0.0.1', allowHalfOpen: true })
        socket.once('error', reject)
        socket.write('CONNECT 127.0.0.1:' + port + ' HTTP/1.1\\r\\n\\r\\n')
        socket.once('data', (head) =>
          String(head).startsWith('HTTP/1.1 200') ? resolve(socket) : reject(new Error(String(head))))
      })
      const all = async (socket) => {
        const parts = []
        for await (const part of socket) parts.push(part)
        return Buffer.concat(parts)
      }
      const main = async () => {${code}}
      main().then(() => process.exit(), (error) => { console.log(error); process.exit(1) })
    `
      await sandbox.files.write(path.join(project, name), text)
      return output(`node ${name}`)
    }

    beforeAll(async () => {
      project = mkdtempSync(path.join(os.tmpdir(), 'nacre-vm-network-'))
      web = await Server.http((request, response) => {
        urls.push(request.url)
        if (request.method !== 'POST')
          return void response.end(request.url === '/data' ? data : `you asked for ${request.url}`)
        const hash = createHash('sha256')
        request.on('data', (part) => hash.update(part)).on('end', () => response.end(hash.digest('hex')))
      })
      forbidden = await Server.http((_request, response) => response.end('secret'))
      // Says what it got once the client has ended its side.
      raw = await Server.tcp((socket) => {
        let length = 0
        socket.on('data', (part) => {
          length += part.length
        })
        socket.on('end', () => socket.end(`got ${length}`))
      })
      sandbox = await openSandbox({
        ...{ engine: 'vm', emulate: true, memory: '1g', kernel, cwd: project },
        network: {
          allow: [
            `127.0.0.1:${web.port}`,
            `localhost:${web.port}`,
            `127.0.0.1:${raw.port}`,
            'denied.invalid:*',
          ],
          deny: ['denied.invalid:80'],
          ask({ target }) {
            asked.push(target)
            return 'deny'
          },
        },
      })
    }, BOOT_MS)

    afterAll(async () => {
      await sandbox?.destroy()
      for (const server of [web, forbidden, raw]) server?.close()
      rmSync(project, { recursive: true })
    })

    it('reaches allowed hosts by the variables, plain and with a tunnel', async () => {
      expect(await output(`curl -sS http://127.0.0.1:${web.port}/plain`)).toBe('you asked for /plain')
      expect(await output(`curl -sS -p http://localhost:${web.port}/tunnel`)).toBe('you asked for /tunnel')
      expect(await output(`wget -qO- http://localhost:${web.port}/wget`)).toBe('you asked for /wget')
      const hello =
        'exec 3<>/dev/tcp/127.0.0.1/3128; printf "\\x05\\x01\\x00" >&3; head -c 2 <&3 | od -An -tx1'
      expect(await output(hello)).toBe('05 00')
      await output(`git ls-remote http://localhost:${web.port}/x`)
      expect(urls).toContain('/x/info/refs?service=git-upload-pack')
    })

    it('gets an answer for others that names the host and the option', async () => {
      const answer = (target: string) => `nacre: the option network does not allow ${target}`
      const { port } = forbidden
      expect(await output(`curl -sS http://127.0.0.1:${port}/`)).toBe(answer(`127.0.0.1:${port}`))
      expect(await output(`curl -sS -p http://127.0.0.1:${port}/ 2>&1`)).toContain('403')
      expect(await output('curl -sS http://denied.invalid/')).toBe(answer('denied.invalid:80'))
      expect(forbidden.reached).toBe(0)
    })

    it('asks the function of this machine for hosts of no list', async () => {
      expect(await output('curl -sS http://other.invalid:81/')).toContain('does not allow other.invalid:81')
      expect(asked).toEqual(['other.invalid:81'])
    })

    it('has no other way out, as root of the guest', async () => {
      expect(await output('id -u')).toBe('0')
      expect(await output('ls /sys/class/net')).toBe('lo')
      const { port } = forbidden
      for (const host of ['127.0.0.1', '169.254.169.254', '8.8.8.8', '[::1]'])
        expect(await output(`curl -sS --noproxy '*' -m 20 http://${host}:${port}/ 2>&1`)).toMatch(
          /^curl: \(7\)/,
        )
      // The proxy is on this machine, but not where others are.
      await using other = new Sandbox({
        isolation: { filesystem: { write: [] }, network: { allow: [`127.0.0.1:${port}`] } },
      })
      expect((await other.exec(`curl -sS http://127.0.0.1:${port}/`)).stdout).toBe('secret')
      const { reached } = forbidden
      for (const target of [
        '169.254.169.254:80',
        '127.0.0.1:3128',
        '[::1]:3128',
        '0.0.0.0:3128',
        `[::ffff:127.0.0.1]:${port}`,
      ])
        expect(await output(`curl -sS -m 20 http://${target}/`)).toMatch(/does not allow|cannot connect/)
      expect(forbidden.reached).toBe(reached)
      // The port of the network is init's alone.
      expect(await output('for port in /dev/vport*; do (: < $port) 2>&1; done')).toMatch(/busy[\s\S]*busy/)
    })

    it('passes on large transfers intact, both ways', async () => {
      const url = `http://127.0.0.1:${web.port}/data`
      writeFileSync(path.join(project, 'up'), data)
      expect(await output(`curl -sS --data-binary @up ${url}`)).toBe(digest(data))
      expect(await output(`curl -sS -p -o down ${url}`)).toBe('')
      expect(digest(readFileSync(path.join(project, 'down')))).toBe(digest(data))
    })

    it('passes on the end of one direction', async () => {
      const code = `
      const socket = await tunnel(${raw.port})
      socket.end(Buffer.alloc(100000))
      console.log(String(await all(socket)))
    `
      expect(await script('half.cjs', code)).toBe('got 100000')
    })

    it('serves 200 connections at once', async () => {
      const code = `
      const sockets = await Promise.all(Array.from({ length: 200 }, () => tunnel(${raw.port})))
      sockets.forEach((socket, at) => socket.end(Buffer.alloc(at)))
      const answers = await Promise.all(sockets.map(all))
      console.log(answers.filter((answer, at) => String(answer) === 'got ' + at).length)
    `
      expect(await script('many.cjs', code)).toBe('200')
    }, 120_000)

    it('does not let a program that reads nothing delay others', async () => {
      const code = `
      const frozen = await tunnel(${web.port})
      frozen.pause()
      frozen.write('GET /data HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n')
      for (let round = 0; round < 5; round++) {
        const socket = await tunnel(${raw.port})
        socket.end(Buffer.alloc(200000))
        console.log(String(await all(socket)))
      }
    `
      expect(await script('frozen.cjs', code)).toBe(Array(5).fill('got 200000').join('\n'))
    })
  },
  BOOT_MS,
)

describe('options that cannot be', () => {
  const cases: Array<[EngineOptions, RegExp]> = [
    [{ network: 'bridge' }, /^network must be 'none' or \{ allow \} with engine 'vm', not bridge/],
    [
      { network: { allow: [] }, isolation: 'workspace' },
      /^isolation\.network must be 'host' with engine 'vm'/,
    ],
    [
      { isolation: { network: { allow: [] } } },
      /^isolation\.network must be 'host'.*: give hosts in network$/,
    ],
    [{ network: { allow: [] }, engine: 'auto' }, /^network must be a name without.*isolation\.network/],
    [{ network: { allow: [] }, engine: 'auto', where: 'here' }, /^network must be a name without/],
  ]
  it.each(cases)('%j is refused with a remedy', async (options, message) => {
    const refused = await rejectionOf(openSandbox({ engine: 'vm', ...options }))
    expect(refused).toMatchObject({ code: 'INVALID_OPTION', message: expect.stringMatching(message) })
  })
})
