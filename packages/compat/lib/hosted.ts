/** A sandbox that clients have created: a sandbox of nacre in a directory of its own. */
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { FilesystemRules, Process, Sandbox } from 'nacre'
import { engineError } from 'nacre/internal'
import { backendOf, type NativeBackend } from 'nacre/internal/server'
import { HttpError } from './failure.js'
import type { RecordNetwork } from './network.js'
import { View } from './view.js'

const MOST_CONNECTIONS = 512

/** What is kept of a paused sandbox, whatever its API. */
export interface SandboxRecord {
  id: string
  env: Record<string, string>
  /** Milliseconds since 1970. */
  startedAt: number
  network: RecordNetwork
}

/** Where and how all sandboxes of a server run. */
export interface Place<R extends SandboxRecord = SandboxRecord> {
  /** Creates the sandbox of nacre. */
  open(hosted: Hosted<R>, rules: FilesystemRules): Promise<Sandbox>
  sandboxes: string
  records: string
  /** The home directory of all sandboxes, as clients see it. */
  home: string
  /** The user of all sandboxes, as clients know it. It is the user of this process. */
  user: string
  /** Whether programs see the directories at `home` and /tmp. */
  isMounted: boolean
}

/** What ends with the processes of a sandbox: a value for each of its runs. */
export function perRun<T>(create: (hosted: Hosted) => T): (hosted: Hosted) => T {
  const values = new WeakMap<Hosted, T>()
  return (hosted) => {
    const known = values.get(hosted)
    if (known !== undefined) return known
    const value = create(hosted)
    values.set(hosted, value)
    hosted.onHalt.add(() => values.delete(hosted))
    return value
  }
}

/** The place in lists of sandboxes, by the time of their start. */
export function placeOf({ record }: Hosted): string {
  return `${String(record.startedAt).padStart(16, '0')}-${record.id}`
}

/** A process, as clients have started it. */
export interface HostedProcess {
  process: Process
  /** As programs of the sandbox see it. */
  pid: number
  config: object
  tag: string | undefined
  isTerminal: boolean
  hasInput: boolean
  /** Replies that are sending its output. */
  followers: number
}

interface Connection {
  destroy(): void
  once(event: 'close', listener: () => void): void
}

export class Hosted<R extends SandboxRecord = SandboxRecord> {
  record: R
  readonly directory: string
  readonly view: View
  /** By their pids. */
  readonly processes = new Map<number, HostedProcess>()
  /** Replies under way and sockets, which end before the sandbox does. */
  readonly connections = new Set<Connection>()
  /** What else ends with the processes. */
  readonly onHalt = new Set<() => void>()
  readonly #place: Place<R>
  #sandbox: Sandbox | undefined

  constructor(record: R, place: Place<R>) {
    this.record = record
    this.directory = path.join(place.sandboxes, record.id)
    this.view = new View(this.directory, place.isMounted, place.home)
    this.#place = place
  }

  /** The directory of all sandboxes of the server. */
  get root(): string {
    return this.#place.sandboxes
  }

  get user(): string {
    return this.#place.user
  }

  get state(): 'running' | 'paused' {
    return this.#sandbox === undefined ? 'paused' : 'running'
  }

  /** Where calls go that only this package makes. Throws SandboxError while it is paused. */
  get backend(): NativeBackend {
    return backendOf(this.sandbox) as NativeBackend
  }

  /** Throws SandboxError while it is paused. */
  get sandbox(): Sandbox {
    if (this.#sandbox === undefined) throw engineError('SANDBOX_DESTROYED', 'the sandbox is not running')
    return this.#sandbox
  }

  /** Drops what is kept of a process that has ended. */
  forget({ id }: Process): void {
    if (this.state === 'running') this.backend.forgetProcess(id)
  }

  /** Ends the connection before the processes. Throws HttpError when there are too many. */
  connect(connection: Connection): void {
    if (this.connections.size >= MOST_CONNECTIONS)
      throw new HttpError(429, `a sandbox has at most ${MOST_CONNECTIONS} connections at the same time`)
    this.connections.add(connection)
    connection.once('close', () => this.connections.delete(connection))
  }

  async createDirectory(): Promise<void> {
    const home = path.join(this.directory, 'home')
    await mkdir(this.directory, { mode: 0o700 })
    await mkdir(home)
    await mkdir(path.join(this.directory, 'tmp'))
    // Commands run in login shells, where /etc/profile drops directories like those of nvm and pyenv.
    await writeFile(
      path.join(home, '.profile'),
      `export PATH='${(process.env.PATH ?? '').replaceAll("'", `'\\''`)}'\n`,
    )
  }

  /** Starts its first shell. */
  async start(): Promise<void> {
    const { mounts, home } = this.view
    const rules = mounts.length > 0 ? { write: [], mounts } : { write: [home] }
    const sandbox = await this.#place.open(this, rules)
    try {
      await sandbox.exec(':')
    } catch (error) {
      await sandbox.destroy()
      throw error
    }
    this.#sandbox = sandbox
  }

  /** Ends all processes. The files stay. */
  async halt(): Promise<void> {
    const sandbox = this.#sandbox
    this.#sandbox = undefined
    // First, since clients then ask whether the sandbox still runs.
    for (const connection of this.connections) connection.destroy()
    for (const end of this.onHalt) end()
    this.onHalt.clear()
    this.processes.clear()
    await sandbox?.destroy()
  }
}
