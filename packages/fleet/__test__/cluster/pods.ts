/** Pods: real `nacre serve` processes, or servers in one host process, each with a secret that only its commands see. */
import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { Network, type PodNetwork } from './network.js'

export const PORT = 3000
export const TOKEN = 'a-token-of-the-tests'

export interface Pod {
  ip: string
  /** The variable SECRET of its commands. */
  secret: string
  network: PodNetwork
  /** Kills it, like the loss of a node. */
  kill(): Promise<void>
}

export interface PodMaker {
  /** Starts a pod, at the address of a pod that has ended if `at` is given. */
  start(at?: PodNetwork): Promise<Pod>
  close(): Promise<void>
}

const root = path.dirname(path.dirname(path.dirname(path.dirname(__dirname))))

/** Runs each pod in its own process. */
export class ProcessPods implements PodMaker {
  readonly #network = new Network()
  readonly #directory = mkdtempSync(path.join(os.tmpdir(), 'nacre-pods-'))
  readonly #running = new Set<ChildProcess>()

  get hasNamespaces(): boolean {
    return this.#network.hasNamespaces
  }

  constructor() {
    writeFileSync(path.join(this.#directory, 'token'), TOKEN)
  }

  async start(network = this.#network.pod()): Promise<Pod> {
    const secret = randomUUID()
    const home = path.join(this.#directory, secret)
    mkdirSync(home)
    const [program = '', ...words] = [
      ...[...network.enter, process.execPath, path.join(root, 'dist/cli/main.js'), 'serve'],
      ...['--host', network.ip, '--port', String(PORT), '--cwd', home],
      ...['--token-file', path.join(this.#directory, 'token'), '--jobs-root', path.join(home, 'jobs')],
    ]
    const env = { ...process.env, SECRET: secret, TMPDIR: home }
    const child = spawn(program, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    this.#running.add(child)
    const ended = new Promise<void>((resolve) => child.on('exit', () => resolve()))
    void ended.then(() => this.#running.delete(child))
    await listening(child)
    return {
      ...{ ip: network.ip, secret, network },
      async kill() {
        child.kill('SIGKILL')
        await ended
      },
    }
  }

  async close(): Promise<void> {
    await Promise.all(
      [...this.#running].map((child) => {
        child.kill('SIGKILL')
        return new Promise<void>((resolve) => {
          if (child.exitCode !== null || child.signalCode !== null) resolve()
          else child.on('exit', () => resolve())
        })
      }),
    )
    this.#network.close()
    rmSync(this.#directory, { recursive: true, force: true })
  }
}

function listening(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let errors = ''
    child.stderr?.on('data', (data) => {
      errors += data
    })
    child.stdout?.on('data', (data) => String(data).includes('listens') && resolve())
    child.on('exit', (code) => reject(new Error(`a pod has ended with code ${code}: ${errors}`)))
  })
}

/**
 * Runs all pods in one process, for thousands of them. Each is a separate sandbox and server, with its own instance and
 * shells, at its own address of the loopback interface.
 */
export class SharedPods implements PodMaker {
  readonly #network = new Network(false)
  readonly #waiting = new Map<number, (reply: { error?: string }) => void>()
  readonly #child: ChildProcess
  #requests = 0

  constructor() {
    const script = path.join(__dirname, 'pod-host.mjs')
    this.#child = spawn(process.execPath, [script], { stdio: ['ignore', 'inherit', 'inherit', 'ipc'] })
    this.#child.on('message', (reply: { id: number; error?: string }) => {
      this.#waiting.get(reply.id)?.(reply)
      this.#waiting.delete(reply.id)
    })
  }

  async start(network = this.#network.pod()): Promise<Pod> {
    const secret = randomUUID()
    const { ip } = network
    await this.#ask({ start: ip, port: PORT, token: TOKEN, secret })
    return { ip, secret, network, kill: () => this.#ask({ stop: ip }) }
  }

  async close(): Promise<void> {
    const ended = new Promise((resolve) => this.#child.on('exit', resolve))
    this.#child.disconnect()
    await ended
  }

  #ask(request: object): Promise<void> {
    const id = ++this.#requests
    this.#child.send({ id, ...request })
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, ({ error }) => (error === undefined ? resolve() : reject(new Error(error))))
    })
  }
}
