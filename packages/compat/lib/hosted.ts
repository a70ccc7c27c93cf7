/** A sandbox that clients have created: a sandbox of nacre in a directory of its own. */
import { mkdir, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { FilesystemRules, Process, Sandbox, Session } from 'nacre'
import { engineError, isCode, SandboxError } from 'nacre/internal'
import { backendOf, type NativeBackend } from 'nacre/internal/server'
import { HttpError } from './failure.js'
import type { RecordNetwork } from './network.js'
import { View } from './view.js'

const MOST_CONNECTIONS = 512
/** Milliseconds for which a pause waits for commands of shells. */
const PAUSE_TIMEOUT = 5000
/** Things and characters of each that an error names. */
const NAMED = 3
const NAME_CHARACTERS = 60

/** What is kept of a paused sandbox, whatever its API. */
export interface SandboxRecord {
  id: string
  env: Record<string, string>
  /** Milliseconds since 1970. */
  startedAt: number
  network: RecordNetwork
  /** What the parts of a paused sandbox go on with, by their names, if its archive has its shells. */
  kept?: Record<string, unknown>
}

/**
 * What a pause keeps, and what the end of a pause brings back. 'full' is everything, or the call fails. 'shells' is the files, and the
 * shells if that can be. 'filesystem' is the files alone.
 */
export type Snapshot = 'full' | 'shells' | 'filesystem'

/** Where and how all sandboxes of a server run. */
export interface Place<R extends SandboxRecord = SandboxRecord> {
  /** Creates the sandbox of nacre. With the path of an archive, it has the shells of the archive. */
  open(hosted: Hosted<R>, rules: FilesystemRules, archive: string | undefined): Promise<Sandbox>
  sandboxes: string
  /** Also has the archives. */
  records: string
  /** The home directory of all sandboxes, as clients see it. */
  home: string
  /** The user of all sandboxes, as clients know it. It is the user of this process. */
  user: string
  /** Whether programs see the directories at `home` and /tmp. */
  isMounted: boolean
}

/** What ends with the processes of a sandbox, like its sessions. */
interface Part<T, K> {
  /** `kept`: of the run before the pause, if that has kept the shells. */
  create(hosted: Hosted, kept: K | undefined): T
  /** What `create` needs to go on with the shells, as JSON. */
  keep?(value: T, snapshot: Snapshot): K
  /** A text for each thing that only memory has, like a running interpreter. */
  inMemory?(value: T): string[]
}

/** A value for each run of a sandbox. The name is that of the part in records. */
export function perRun<T, K = never>(
  name: string,
  { create, keep, inMemory }: Part<T, K>,
): (hosted: Hosted) => T {
  const values = new WeakMap<Hosted, T>()
  return (hosted) => {
    const known = values.get(hosted)
    if (known !== undefined) return known
    const value = create(hosted, hosted.kept[name] as K | undefined)
    values.set(hosted, value)
    hosted.parts.set(name, {
      keep: (snapshot) => keep?.(value, snapshot),
      inMemory: () => inMemory?.(value) ?? [],
    })
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
  /** What this run goes on with, by the names of the parts. */
  kept: Record<string, unknown> = {}
  /** The shells that this run goes on with, by their ids. */
  readonly shells = new Map<string, Session>()
  /** Those that this run has used, by their names. */
  readonly parts = new Map<string, { keep(snapshot: Snapshot): unknown; inMemory(): string[] }>()
  /** Has the shells while the sandbox is paused. */
  readonly archive: string
  readonly #place: Place<R>
  #sandbox: Sandbox | undefined

  constructor(record: R, place: Place<R>) {
    this.record = record
    this.directory = path.join(place.sandboxes, record.id)
    this.archive = path.join(place.records, `${record.id}.nacre`)
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

  /**
   * Starts its first shell, and goes on with those of the pause, unless `snapshot` is 'filesystem'. With 'shells', resolves with the
   * error if they are lost. Throws HttpError.
   */
  async start(snapshot: Snapshot): Promise<unknown> {
    const { kept } = this.record
    let lost: unknown
    if (kept === undefined || snapshot === 'filesystem') await this.#open(undefined)
    else
      try {
        await this.#open(kept)
      } catch (error) {
        if (snapshot === 'full') throw unrestored(error)
        lost = error
        await this.#open(undefined)
      }
    delete this.record.kept
    return lost
  }

  async #open(kept: Record<string, unknown> | undefined): Promise<void> {
    const { mounts, home } = this.view
    const rules = mounts.length > 0 ? { write: [], mounts } : { write: [home] }
    const sandbox = await this.#place.open(this, rules, kept && this.archive)
    try {
      await sandbox.exec(':')
      // Late calls may have used them during the pause.
      this.#endParts()
      if (kept !== undefined)
        for (const session of await sandbox.listSessions()) this.shells.set(session.id, session)
    } catch (error) {
      await sandbox.destroy()
      throw error
    }
    this.kept = kept ?? {}
    this.#sandbox = sandbox
  }

  /** Ends all processes. With 'shells', resolves with the error if they are lost. Throws HttpError with 'full': it runs on then. */
  async pause(snapshot: Snapshot): Promise<unknown> {
    if (snapshot === 'filesystem') return void (await this.halt())
    if (snapshot === 'shells') return await this.#keepShells()
    await this.#keepAll()
    return undefined
  }

  async #keepAll(): Promise<void> {
    const processes = [...this.processes.values()].filter(({ process }) => process.status === 'running')
    const inMemory = [
      ...processes.map(({ process, pid }) => `process ${pid} (${process.command.slice(0, NAME_CHARACTERS)})`),
      ...[...this.parts.values()].flatMap((part) => part.inMemory()),
    ]
    if (inMemory.length > 0) throw notFull(`would end ${listOf(inMemory)}`)
    try {
      await this.sandbox.suspend(this.archive, { busy: 'reject', signal: AbortSignal.timeout(PAUSE_TIMEOUT) })
    } catch (error) {
      // What no client has started, like a daemon. The rest of the text is about an option of nacre.
      if (isCode(error, 'WORKSPACE_BUSY'))
        throw notFull(`is not possible: ${error.message.split('; end them')[0]}`)
      if ((error as Error).name === 'AbortError') throw notFull('would end code that runs in a context')
      const reason = error instanceof SandboxError ? error.code : String(error)
      const message = `the shells of the sandbox cannot be written to its directory (${reason}). It runs on`
      throw new HttpError(isCode(error, 'NO_SPACE') ? 507 : 500, message)
    }
    this.record.kept = this.#keepParts('full')
    await this.halt()
  }

  async #keepShells(): Promise<unknown> {
    const kept = this.#keepParts('shells')
    const sandbox = this.#leave()
    if (sandbox === undefined) return undefined
    try {
      await sandbox.killAllProcesses()
      // Those that wait, before their turn comes.
      for (const session of await sandbox.listSessions())
        for (const { id } of (await session.running()).reverse()) session.killCommand(id).catch(() => {})
      await sandbox.suspend(this.archive, { signal: AbortSignal.timeout(PAUSE_TIMEOUT) })
      this.record.kept = kept
    } catch (error) {
      return error
    } finally {
      await sandbox.destroy()
    }
    return undefined
  }

  /** A part that this run has not used goes on with what it had. */
  #keepParts(snapshot: Snapshot): Record<string, unknown> {
    const used = [...this.parts].map(([name, part]) => [name, part.keep(snapshot)])
    return { ...this.kept, ...Object.fromEntries(used) }
  }

  /** Ends all processes. The files stay. */
  async halt(): Promise<void> {
    await this.#leave()?.destroy()
  }

  /** Returns the sandbox of nacre, which no call finds any more. */
  #leave(): Sandbox | undefined {
    const sandbox = this.#sandbox
    this.#sandbox = undefined
    // First, since clients then ask whether the sandbox still runs.
    for (const connection of this.connections) connection.destroy()
    this.#endParts()
    this.processes.clear()
    this.kept = {}
    return sandbox
  }

  #endParts(): void {
    for (const end of this.onHalt) end()
    this.onHalt.clear()
    this.parts.clear()
    this.shells.clear()
  }
}

function listOf(names: string[]): string {
  const more = names.length - NAMED
  return names.slice(0, NAMED).join(', ') + (more > 0 ? ` and ${more} more` : '')
}

function notFull(reason: string): HttpError {
  return new HttpError(
    501,
    `nacre keeps no memory of processes, so a full pause ${reason}. End them, or pause with mode 'filesystem' (keepMemory: false), which keeps the files`,
  )
}

function unrestored(error: unknown): HttpError {
  if (error instanceof HttpError) return error
  const reason = error instanceof Error ? error.message : String(error)
  return new HttpError(
    500,
    `the shells of the sandbox cannot be brought back: ${reason}. Connect with onResume: 'reboot', which brings back the files`,
  )
}
