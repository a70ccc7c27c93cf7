/** A real Redis for a test, on a free port of loopback. */
import { type ChildProcess, spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { connect } from 'node:net'
import { freePort } from './serving.js'
import { until } from './until.js'

const PROGRAM = '/usr/bin/redis-server'

export interface RedisServer {
  port: number
  url: string
  /** Sends SIGTERM or SIGKILL, and waits for the end of the process. */
  stop(signal?: NodeJS.Signals): Promise<void>
  /** Starts it again on the same port and directory. */
  start(): Promise<void>
  signal(signal: NodeJS.Signals): void
}

/** `append`: its data survives a restart; `everysec` may lose the writes of the last second. */
export async function startRedis(
  directory: string,
  append: 'no' | 'everysec' | 'always' = 'no',
): Promise<RedisServer> {
  if (!existsSync(PROGRAM)) throw new Error('These tests need Redis: apt-get install redis-server')
  const port = await freePort()
  let child: ChildProcess | undefined
  const server: RedisServer = {
    port,
    url: `redis://127.0.0.1:${port}`,
    signal: (signal) => void child?.kill(signal),
    start: async () => {
      const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '']
      const persistence =
        append === 'no' ? ['--appendonly', 'no'] : ['--appendonly', 'yes', '--appendfsync', append]
      child = spawn(PROGRAM, [...args, ...persistence], { stdio: 'ignore' })
      await until(
        () => answers(port),
        () => 'Redis does not answer',
      )
    },
    stop: async (signal = 'SIGTERM') => {
      const ending = child
      child = undefined
      if (ending === undefined) return
      const ended = new Promise((resolve) => ending.once('exit', resolve))
      ending.kill('SIGCONT')
      ending.kill(signal)
      await ended
    },
  }
  await server.start()
  return server
}

/** True once it has loaded its data. */
function answers(port: number): Promise<true | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write('PING\r\n'))
    const settle = (answer: true | undefined) => {
      socket.destroy()
      resolve(answer)
    }
    socket.on('data', (data) => settle(data.toString().startsWith('+PONG') || undefined))
    socket.on('error', () => settle(undefined))
  })
}
