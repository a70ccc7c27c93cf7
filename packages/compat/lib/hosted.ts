/** A sandbox that clients have created: a sandbox of nacre in a directory of its own. */
import { randomBytes } from 'node:crypto'
import { mkdir, writeFile } from 'node:fs/promises'
import type { ServerResponse } from 'node:http'
import path from 'node:path'
import type { FilesystemRules, Process, Sandbox } from 'nacre'
import { engineError } from 'nacre/internal'
import { View } from './view.js'

/** What is kept of a paused sandbox. */
export interface SandboxRecord {
  id: string
  /** What clients of its files and processes must send. */
  token: string
  template: string
  metadata: Record<string, string>
  env: Record<string, string>
  /** Milliseconds since 1970. */
  startedAt: number
  endAt: number
  pausesOnTimeout: boolean
  hasNetwork: boolean
}

/** Where and how all sandboxes of a server run. */
export interface Place {
  /** Creates the sandbox of nacre. */
  open(hosted: Hosted, rules: FilesystemRules): Sandbox
  sandboxes: string
  /** Whether programs see the directories at /home/user and /tmp. */
  isMounted: boolean
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
}

export class Hosted {
  record: SandboxRecord
  readonly directory: string
  readonly view: View
  /** By their pids. */
  readonly processes = new Map<number, HostedProcess>()
  /** Replies under way, which end before the sandbox does. */
  readonly replies = new Set<ServerResponse>()
  /** What else ends with the processes. */
  readonly onHalt = new Set<() => void>()
  readonly #place: Place
  #sandbox: Sandbox | undefined

  constructor(record: SandboxRecord, place: Place) {
    this.record = record
    this.directory = path.join(place.sandboxes, record.id)
    this.view = new View(this.directory, place.isMounted)
    this.#place = place
  }

  get state(): 'running' | 'paused' {
    return this.#sandbox === undefined ? 'paused' : 'running'
  }

  /** Throws SandboxError while it is paused. */
  get sandbox(): Sandbox {
    if (this.#sandbox === undefined) throw engineError('SANDBOX_DESTROYED', 'the sandbox is not running')
    return this.#sandbox
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
    const sandbox = this.#place.open(this, mounts.length > 0 ? { write: [], mounts } : { write: [home] })
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
    for (const reply of this.replies) reply.destroy()
    for (const end of this.onHalt) end()
    this.onHalt.clear()
    this.processes.clear()
    await sandbox?.destroy()
  }
}

export function freshId(): string {
  return `i${randomBytes(10).toString('hex').slice(1)}`
}

export function freshToken(): string {
  return `ea_${randomBytes(24).toString('hex')}`
}
