/** Small servers for tests: commands that listen, and free ports. */
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import os from 'node:os'

/** The first port that the kernel assigns automatically, to a socket that requests any port or connects. */
const firstGiven = Number.parseInt(readFileSync('/proc/sys/net/ipv4/ip_local_port_range', 'latin1'), 10)
const FIRST = 10_000

/**
 * A free port of 127.0.0.1. It is below the automatically assigned ports, which a connection of another program could take
 * before the test. NACRE_SEED does not apply: two concurrent runs must not get the same port.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = FIRST + Math.floor(Math.random() * (firstGiven - FIRST))
    if (await isFree(port)) return port
  }
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' ? resolve(false) : reject(error),
    )
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}

/**
 * An address of this machine besides the loopback interface: names never lead to loopback addresses, and no question is asked
 * for them.
 */
export function outerAddress(): string {
  for (const found of Object.values(os.networkInterfaces()).flat())
    if (found?.family === 'IPv4' && !found.internal) return found.address
  throw new Error('these tests need a network interface besides the loopback interface')
}

export interface ServerTraits {
  port: number
  host?: string
  /** A file that must exist before it listens. */
  after?: string
  /** The status of its responses, as an expression of the request `q`. */
  status?: string
}

/** The words of a command that serves HTTP on the runtime of this process, and prints a line when it does. */
export function serverCommand({ port, host = '127.0.0.1', after, status = '200' }: ServerTraits): string[] {
  const wait = after === undefined ? 'go()' : `wait()`
  const program = `
    const { existsSync } = require('node:fs')
    const server = require('node:http').createServer((q, r) => { r.statusCode = ${status}; r.end('hello') })
    const go = () => server.listen(${port}, '${host}', () => console.log('listening'))
    const wait = () => existsSync('${after}') ? go() : setTimeout(wait, 10)
    ${wait}
  `
  return [process.execPath, '-e', program]
}
