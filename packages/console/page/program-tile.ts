/** The tile of a process: its output, and what is typed while it is taken over. */
import type { Hold, Process } from 'nacre'
import type { SandboxClient } from 'nacre/client'
import { askText, attempt, notify } from './ask.ts'
import { type Program, waitsFor } from './model.ts'
import { LOOK_MS, PERSON, Tile } from './tile.ts'

/** How long the page waits after each piece of output, so that it stays quick. */
const PACE_MS = 50
/** After so many bytes without a pause it goes on at the end: a person cannot read them. */
const MOST_BEHIND = 4 * 1024 * 1024
const PAUSE_MS = 200
const END = Number.MAX_SAFE_INTEGER
/** One that cannot be seen is asked so many times less often. */
const UNSEEN = 5

export class ProgramTile extends Tile<Process> {
  readonly #client: SandboxClient
  readonly #program: Program
  readonly #decoder = new TextDecoder()
  #stop: AbortController | undefined
  #cursor = 0
  readonly #look: ReturnType<typeof setInterval>
  #looks = 0

  constructor(client: SandboxClient, program: Program) {
    super({ title: program.command, place: `${program.sessionId} / ${program.id}`, size: program.size })
    this.#client = client
    this.#program = program
    this.take.title = 'In the terminal, F6 goes back to this button'
    this.screen.onLeave = () => this.take.focus()
    this.addButton('Kill', () => attempt(() => this.#kill()))
    this.#look = setInterval(() => {
      if (this.isVisible || ++this.#looks % UNSEEN === 0) void this.#lookAt()
    }, LOOK_MS)
    this.update()
  }

  /** Shows what the model says. */
  update(): void {
    const { isRunning, end, waiting, size } = this.#program
    this.state = isRunning ? 'running' : end
    this.badge = waiting === null || this.hold ? '' : waitsFor(waiting)
    this.screen.resize(size)
    this.element.classList.toggle('ended', !isRunning)
    for (const button of this.element.querySelectorAll('footer button'))
      if (button.textContent === 'Kill' || button === this.take)
        (button as HTMLButtonElement).disabled = !isRunning
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
    while (!signal.aborted) {
      const isOver = await this.#read(signal)
      if (isOver) return
      this.screen.reset()
      void this.screen.write('\x1b[2m[some output is not shown]\x1b[0m\r\n')
    }
  }

  /** Resolves with true at the end of the output, and with false when it has fallen behind. */
  async #read(signal: AbortSignal): Promise<boolean> {
    let behind = 0
    try {
      const output = this.#client.streamProcessLogs(this.#program.id, {
        ...{ encoding: 'buffer', cursor: this.#cursor, signal },
      })
      for (;;) {
        const asked = performance.now()
        const { done, value } = await output.next()
        if (done || value.type === 'exit') return true
        behind = performance.now() - asked > PAUSE_MS ? 0 : behind + value.data.length
        this.#cursor = value.cursor
        await this.screen.write(this.#shown(value.data))
        await new Promise((resolve) => setTimeout(resolve, PACE_MS))
        if (behind < MOST_BEHIND) continue
        this.#cursor = END
        await output.return?.()
        return false
      }
    } catch (error) {
      if (signal.aborted) return true
      throw error
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
      if (process === null || process.state !== 'running') return
      this.usage = await process.stats()
      // No event says that it waits no longer.
      this.#program.waiting = await process.waiting()
      this.update()
    } catch {
      // It has ended, or the connection is lost: the page says so elsewhere.
    }
  }

  protected override async makeHold(): Promise<Hold<Process> | undefined> {
    return (await this.#client.getProcess(this.#program.id))?.hold(PERSON)
  }

  protected override onHold(hold: Hold<Process> | undefined): void {
    this.screen.setInput(
      hold && ((data) => void attempt(() => hold.held.write(typed(data, this.#program.hasTerminal)))),
    )
    this.update()
  }

  protected override async handBack(hold: Hold<Process>): Promise<void> {
    const note = await askText('Hand back?', 'Note for others, like "logged in"', 'Hand back')
    if (note !== undefined) await hold.release(note === '' ? undefined : note)
  }

  async #kill(): Promise<void> {
    const reason = await askText(`Kill ${this.#program.command}?`, 'Reason', 'Kill')
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
