/** Programs that ignore the proxy reach the hosts of an allow list, and no other. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { withHosts } from '../helpers/namespaces.js'
import { outerAddress } from '../helpers/serving.js'

interface Result {
  all: string
  exitCode: number
  denials: string[]
}

const own = outerAddress()
let base: string
const built = path.join(path.dirname(path.dirname(__dirname)), 'dist', 'index.js')

beforeAll(() => {
  base = mkdtempSync(path.join(os.tmpdir(), 'nacre-direct-'))
  mkdirSync(path.join(base, 'work'))
  const hosts = `${own} allowed.test a.wild.test denied.test\n127.0.0.1 localhost rebound.test\n`
  writeFileSync(path.join(base, 'hosts'), hosts)
  const source = path.join(base, 'get.c')
  writeFileSync(source, STATIC)
  execFileSync('cc', ['-static', '-w', '-o', path.join(base, 'work/get'), source], { stdio: 'pipe' })
})

afterAll(() => rmSync(base, { recursive: true, force: true }))

/** A program without shared libraries, which no variable or preloaded library can make use a proxy. */
const STATIC = `
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>
int main(int count, char **words) {
  struct addrinfo hints = {.ai_socktype = SOCK_STREAM}, *found;
  if (getaddrinfo(words[1], words[2], &hints, &found)) return 2;
  int fd = socket(found->ai_family, SOCK_STREAM, 0);
  if (connect(fd, found->ai_addr, found->ai_addrlen)) return perror("connect"), 1;
  dprintf(fd, "GET / HTTP/1.0\\r\\nHost: %s:%s\\r\\n\\r\\n", words[1], words[2]);
  char text[4096];
  for (ssize_t length; (length = read(fd, text, sizeof text)) > 0;) write(1, text, length);
}`

const UNSET = 'unset {HTTP,HTTPS,ALL,NO}_PROXY {http,https,all,no}_proxy NODE_USE_ENV_PROXY'

/** The results of commands without the variables of the proxy, and the port of a server of this machine: PORT in them. */
function run(
  allow: string[],
  commands: string[],
  // Names in it would already have an address inside.
  hide = ['/etc/hosts'],
  deny: string[] = [],
): { port: number; results: Result[] } {
  const [program = '', ...rest] = withHosts(path.join(base, 'hosts'))
  const runner = [process.execPath, path.join(__dirname, 'direct-runner.mjs'), pathToFileURL(built).href]
  const task = { allow, deny, hide, directory: path.join(base, 'work'), commands: [UNSET, ...commands] }
  const output = execFileSync(program, [...rest, ...runner], {
    encoding: 'utf8',
    input: JSON.stringify(task),
  })
  const { port, results } = JSON.parse(output) as { port: number; results: Result[] }
  return { port, results: results.slice(1) }
}

const python = (...lines: string[]) => `python3 -c '${['import socket', ...lines].join('\n')}'`

/** Prints the error of a connection. */
const connecting = (address: string) =>
  python(
    `s = socket.socket(socket.AF_INET6 if ":" in "${address}" else socket.AF_INET)`,
    `try: s.connect(("${address}", PORT)); print(s.recv(1))`,
    'except OSError as error: print(type(error).__name__, error.errno)',
  )

const programs: Record<string, (host: string) => string> = {
  'fetch of Node.js': (host) =>
    `node -e "fetch('http://${host}:PORT').then((reply) => reply.text()).then(console.log)"`,
  'Node.js with a resolver of its own': (host) =>
    `node -e "require('dns').resolve4('${host}', (_, [address]) => require('http').get({ host: address, port: PORT, headers: { host: '${host}:PORT' } }, (reply) => reply.pipe(process.stdout)))"`,
  curl: (host) => `curl -sS --noproxy '*' http://${host}:PORT`,
  python: (host) =>
    `python3 -c 'import urllib.request; print(urllib.request.urlopen("http://${host}:PORT").read().decode())'`,
  'a static program': (host) => `./get ${host} PORT`,
  bash: (host) =>
    `(exec 3<>/dev/tcp/${host}/PORT && printf 'GET / HTTP/1.0\\r\\nHost: ${host}:PORT\\r\\n\\r\\n' >&3 && cat <&3)`,
}

describe('programs that ignore the proxy', () => {
  for (const [name, get] of Object.entries(programs)) {
    it(`reach the allowed hosts alone: ${name}`, () => {
      const hosts = ['allowed.test', 'a.wild.test', 'denied.test', 'nowhere.invalid']
      const { port, results } = run(['allowed.test:PORT', '*.wild.test:*'], hosts.map(get))
      const [allowed, wild, denied, nowhere] = results
      // A wildcard leads to no private network.
      const isPrivate = /^(10|192\.168|172\.(1[6-9]|2\d|3[01])|100)\./.test(own)
      expect(allowed).toMatchObject({
        all: expect.stringContaining(`hello allowed.test:${port}`),
        exitCode: 0,
        denials: [],
      })
      if (isPrivate) expect(wild?.denials).toEqual([`a.wild.test:${port}`])
      else
        expect(wild).toMatchObject({ all: expect.stringContaining(`hello a.wild.test:${port}`), denials: [] })
      for (const [host, result] of [
        ['denied.test', denied],
        ['nowhere.invalid', nowhere],
      ] as const) {
        expect(result, host).toMatchObject({
          all: expect.not.stringContaining('hello'),
          denials: [`${host}:${port}`],
        })
      }
    })
  }

  it('reach listed addresses, and no other', () => {
    const { port, results } = run(
      [`${own}:PORT`, '[2001:db8::1]:1'],
      [
        `./get ${own} PORT`,
        connecting('192.0.2.200'),
        connecting('198.18.77.77'),
        connecting('2001:db8::1'),
        connecting('::ffff:192.0.2.200'),
        connecting('255.255.255.255'),
      ],
    )
    const [listed, ...others] = results
    expect(listed).toMatchObject({ all: expect.stringContaining('hello'), denials: [] })
    for (const { all } of others) expect(all).toBe('OSError 101\n')
    const targets = ['192.0.2.200', '198.18.77.77', '[2001:db8::1]', '192.0.2.200', '255.255.255.255']
    expect(others.map(({ denials }) => denials)).toEqual(targets.map((target) => [`${target}:${port}`]))
  })

  it('reach neither a denied name, nor an allowed name at a denied address', () => {
    for (const denied of ['allowed.test:PORT', '*.test:*', `${own}:*`]) {
      const { port, results } = run(['allowed.test:*'], ['./get allowed.test PORT'], undefined, [denied])
      expect(results[0]?.all, denied).not.toContain('hello')
      expect(results[0]?.denials, denied).toEqual([`allowed.test:${port}`])
    }
  })

  it('reach nothing of the machine by a name, a datagram or the proxy itself', () => {
    const redirect = `b"\\1\\1" + bytes(10) + b"\\xff\\xff\\x7f\\0\\0\\1" + (PORT).to_bytes(2, "big")`
    const { port, results } = run(
      ['rebound.test:PORT', `${own}:1`],
      [
        './get rebound.test PORT',
        connecting('127.0.0.1'),
        python(
          's = socket.create_connection(("127.0.0.1", 3128))',
          `s.sendall(${redirect})`,
          'print(s.recv(9), s.recv(9))',
        ),
        python(
          's = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)',
          `try: s.sendto(b"x", ("${own}", PORT)); print("sent")`,
          'except OSError as error: print(error.errno)',
        ),
        python(
          's = socket.socket()',
          `try: s.sendto(b"x", socket.MSG_FASTOPEN, ("${own}", PORT)); print("sent")`,
          'except OSError as error: print(error.errno)',
        ),
      ],
    )
    const [rebound, loopback, forged, datagram, fast] = results
    expect(rebound).toMatchObject({ exitCode: 1, denials: [`rebound.test:${port}`] })
    expect(loopback).toMatchObject({ all: 'ConnectionRefusedError 111\n', denials: [] })
    // 101 is ENETUNREACH.
    expect(forged).toMatchObject({ all: "b'e' b''\n", denials: [`127.0.0.1:${port}`] })
    expect(datagram).toMatchObject({ all: '101\n' })
    expect(fast).toMatchObject({ all: '101\n' })
  })

  it('learn why a connection fails, and can use the socket again', () => {
    const { results } = run(
      ['allowed.test:1', `${own}:PORT`],
      [
        './get allowed.test 1',
        // A program that does not wait has a connection before the proxy has one.
        `curl -sS --noproxy '*' http://allowed.test:1`,
        python(
          's = socket.socket()',
          `for address in ["192.0.2.200", "${own}"]: print(s.connect_ex((address, PORT)))`,
          's.sendall(b"GET / HTTP/1.0\\r\\n\\r\\n")',
          'print(s.recv(15), s.getpeername()[0])',
        ),
      ],
    )
    const [waits, goesOn, again] = results
    expect(waits).toMatchObject({ all: 'connect: Connection refused\n', denials: [] })
    // curl may see the end of the connection before or after it has sent its request.
    expect(goesOn).toMatchObject({ all: expect.stringMatching(/reset|connect to server/), denials: [] })
    expect(again).toMatchObject({ all: "101\n0\nb'HTTP/1.1 200 OK' 127.0.0.1\n" })
  })

  it('keep the loopback interface with its ports', () => {
    const { results } = run(
      ['allowed.test:PORT', 'allowed.test:80'],
      [
        python(
          's = socket.create_server(("", PORT))',
          'c = socket.create_connection(("127.0.0.1", PORT))',
          's.accept()[0].sendall(b"own")',
          'print(c.recv(9))',
        ),
        'cat /etc/resolv.conf; echo x > /etc/resolv.conf',
      ],
    )
    const [server, file] = results
    expect(server).toMatchObject({ all: "b'own'\n", denials: [] })
    expect(file?.all).toMatch(/^nameserver 127\.0\.0\.1$/m)
    expect(file?.all).toMatch(/Read-only file system|Permission denied/)
    expect(file?.exitCode).toBe(1)
  })

  it('find names if they ask for IPv4 alone, where the machine has an address', () => {
    const find = (flags: string) =>
      python(
        `print(socket.getaddrinfo("allowed.test", 80, socket.AF_INET, socket.SOCK_STREAM, 0, ${flags})[0][4])`,
      )
    const { results } = run(['allowed.test:80'], [find('0'), find('socket.AI_ADDRCONFIG')])
    for (const { all } of results) expect(all).toBe("('198.18.0.1', 80)\n")
  })
})
