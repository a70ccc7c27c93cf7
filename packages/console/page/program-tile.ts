/** The tile of a process: its output, and what is typed while it is taken over. */
import type { Hold, Process } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { askText, attempt, notify } from './ask.ts'
import type { Connections } from './connections.ts'
import { age } from './dom.ts'
import { type Program, waitsFor } from './model.ts'
import { LOOK_MS, PERSON, Tile } from './tile.ts'

/** How long the page waits after each piece of output, so that it stays quick. */
const PACE_MS = 50
/** After so many bytes without a pause it goes on at the end: a person cannot read them. */
const MOST_BEHIND = 4 * 1024 * 1024
const PAUSE_MS = 200
/** Where others wait to read, a turn ends after a pause of this length, and at the latest after so long. */
const QUIET_MS = 100
const TURN_MS = 500
const MOST_REST_MS = 1000
const END = Number.MAX_SAFE_INTEGER
/** One that cannot be seen is asked so many times less often. */
const UNSEEN = 5

export class ProgramTile extends Tile<Process> {
  readonly #client: SandboxClient
  readonly #program: Program
  readonly #decoder = new TextDecoder()
  #stop: AbortController | undefined
  #cursor = 0
  /** Of the end of the last turn, and the rest after it. */
  #turnCursor = -1
  #restMs = 0
  /** Bytes that have been read without a pause. */
  #behind = 0
  readonly #look: ReturnType<typeof setInterval>
  #looks = 0
  #heldBy: string | null = null
  /** Only an attempt shows whether it does. */
  #takesInput = true
  readonly #connections: Connections
  readonly #killButton: HTMLButtonElement
  readonly #dismiss: HTMLButtonElement

  /** `forget`: takes the tile of an ended process from the page. */
  constructor(client: SandboxClient, program: Program, connections: Connections, forget: () => void) {
    const { id, sessionId, size, hasTerminal } = program
    super({
      ...{ name: id, place: `${sessionId} / ${id}`, connections, holdCost: 1 },
      kind: sessionId === 'default' ? 'process' : `process in ${sessionId}`,
      screen: { size, shows: hasTerminal ? 'terminal' : 'lines' },
    })
    this.#client = client
    this.#program = program
    this.#connections = connections
    this.take.title = 'In the terminal, F6 goes back to this button'
    this.screen.onLeave = () => this.take.focus()
    this.#killButton = this.addButton('Kill', () => attempt(() => this.#kill()), { class: 'danger' })
    this.#dismiss = this.addButton('Dismiss', forget, { hidden: true })
    this.#look = setInterval(() => {
      if (this.isVisible || ++this.#looks % UNSEEN === 0) void this.#lookAt()
    }, LOOK_MS)
    this.update(true)
  }

  /** Shows what the model says. */
  update(isLive: boolean): void {
    const { isRunning, end, failed, waiting, size, command, startTime } = this.#program
    if (!isRunning) this.show(failed ? 'failed' : 'ended', end || 'ended', command)
    else if (isLive) this.show('running', `running ${age(startTime)}`, command)
    else this.show('unknown', 'unknown', command)
    const waits = waiting === null || !isLive ? '' : waitsFor(waiting)
    this.showNeeds(waits, isRunning ? this.#heldBy : null, isRunning && isLive && this.#takesInput)
    this.screen.resize(size)
    this.#killButton.disabled = !isRunning || !isLive
    this.#dismiss.hidden = isRunning
    if (!isRunning) clearInterval(this.#look)
  }

  /** Reads the output only while it can be seen. */
  setVisible(isVisible: boolean): void {
    if (this.isVisible === isVisible) return
    this.isVisible = isVisible
    this.#stop?.abort()
    if (!isVisible) return
    this.screen.show()
    this.#stop = new AbortController()
    void attempt(() => this.#follow((this.#stop as AbortController).signal))
    void this.#lookAt()
  }

  override dispose(): void {
    this.setVisible(false)
    clearInterval(this.#look)
    super.dispose()
  }

  async #follow(signal: AbortSignal): Promise<void> {
    for (;;) {
      const read = await this.#connections.read(async () => (signal.aborted ? 'all' : this.#read(signal)))
      if (read === 'all' || signal.aborted) return
      if (read === 'turn') await this.#rest()
      if (read !== 'behind') continue
      this.screen.reset()
      void this.screen.write('\x1b[2m[some output is not shown]\x1b[0m\r\n')
    }
  }

  /** Before its next turn: the longer, the longer it has printed nothing. */
  async #rest(): Promise<void> {
    const rest = this.#cursor === this.#turnCursor ? Math.min(MOST_REST_MS, this.#restMs * 2 + QUIET_MS) : 0
    this.#turnCursor = this.#cursor
    this.#restMs = rest
    if (!this.isHeld) await new Promise((resolve) => setTimeout(resolve, rest))
  }

  /** Reads until the end, until others want to read, or until it has fallen behind. */
  async #read(signal: AbortSignal): Promise<'all' | 'turn' | 'behind'> {
    const turn = new AbortController()
    const began = performance.now()
    let readAt = began
    const look = setInterval(() => {
      const now = performance.now()
      if (this.isHeld || !this.#connections.isWanted) return
      if (now - readAt > QUIET_MS || now - began > TURN_MS) turn.abort()
    }, QUIET_MS)
    try {
      const output = this.#client.streamProcessLogs(this.#program.id, {
        ...{ encoding: 'buffer', cursor: this.#cursor, signal: AbortSignal.any([signal, turn.signal]) },
      })
      for (;;) {
        const asked = performance.now()
        const { done, value } = await output.next()
        readAt = performance.now()
        if (done || value.type === 'exit') return 'all'
        this.#behind = readAt - asked > PAUSE_MS ? 0 : this.#behind + value.data.length
        this.#cursor = value.cursor
        await this.screen.write(this.#shown(value.data))
        await new Promise((resolve) => setTimeout(resolve, PACE_MS))
        if (this.#behind < MOST_BEHIND) continue
        this.#behind = 0
        this.#cursor = END
        await output.return?.()
        return 'behind'
      }
    } catch (error) {
      if (signal.aborted) return 'all'
      if (turn.signal.aborted) return 'turn'
      throw error
    } finally {
      clearInterval(look)
    }
  }

  /** Without a terminal, a newline does not return to the left. */
  #shown(data: Uint8Array): Uint8Array | string {
    if (this.#program.hasTerminal) return data
    return this.#decoder.decode(data, { stream: true }).replace(/\r?\n/g, '\r\n')
  }

  async #lookAt(): Promise<void> {
    try {
      const process = await this.#client.getProcess(this.#program.id)
      if (process === null || process.endTime !== undefined) return
      this.usage = await process.stats()
      // No event says that it waits no longer.
      this.#program.waiting = await process.waiting()
      this.#heldBy = process.heldBy
    } catch {
      // It has ended, or the connection is lost: the page says so elsewhere.
    }
  }

  protected override async makeHold(): Promise<Hold<Process> | undefined> {
    const process = await this.#client.getProcess(this.#program.id)
    try {
      return await process?.hold(PERSON)
    } catch (error) {
      const { code } = error as { code?: string }
      if (code !== 'INVALID_OPTION' && code !== 'INPUT_CLOSED') throw error
      this.#takesInput = false
      throw new Error(`${this.#program.id} has no open input that you could use`)
    }
  }

  protected override onHold(hold: Hold<Process> | undefined): void {
    this.screen.setInput(
      hold && ((data) => void attempt(() => hold.held.write(typed(data, this.#program.hasTerminal)))),
    )
  }

  protected override async handBack(hold: Hold<Process>): Promise<void> {
    const note = await askText('Hand back?', 'Note for others, like "logged in"', 'Hand back')
    if (note !== undefined) await hold.release(note === '' ? undefined : note)
  }

  async #kill(): Promise<void> {
    const reason = await askText(`Kill ${this.#program.command}?`, 'Reason', 'Kill', 'danger')
    if (reason === undefined) return
    const killed = await this.#client.killProcess(
      this.#program.id,
      undefined,
      reason === '' ? {} : { reason },
    )
    if (!killed) notify('It had already ended.')
  }
}

/** The key Enter is a newline, where no terminal makes one of it. */
function typed(data: string, hasTerminal: boolean): string {
  return hasTerminal ? data : data.replaceAll('\r', '\n')
}
