/** Little servers for tests: commands that listen, and ports that nobody listens on. */
import { createServer } from 'node:net'

/** A port of 127.0.0.1 that was free a moment ago. */
export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.on('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      const port = typeof address === 'object' ? (address?.port ?? 0) : 0
      server.close(() => resolve(port))
    })
  })
}

export interface ServerTraits {
  port: number
  host?: string
  /** A file that must be there before it listens. */
  after?: string
  /** The status of its answers, as an expression of the request `q`. */
  status?: string
}

/** The words of a command that serves HTTP, on the runtime of this process, and says so. */
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
