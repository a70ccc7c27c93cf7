/** A tile: a screen with a title, badges and buttons, of what a person can take over. */
import type { AnySession, Hold, Process, ProcessStats } from 'nacre'
import { attempt } from './ask.ts'
import type { Connections } from './connections.ts'
import { button, counted, el, setText, size, span } from './dom.ts'
import { Screen, type ScreenOptions } from './screen.ts'

/** The owner of the holds of this page, as others see it. */
export const PERSON = 'a person at the console'
/** How often a tile asks what it uses of the machine. */
export const LOOK_MS = 2000
/** A failure stands before the others when it has lasted so long: commands of an agent fail all the time. */
const SETTLE_MS = 2000

/** `unknown`: it ran when the server last answered. */
export type Status = 'running' | 'failed' | 'idle' | 'ended' | 'unknown'

export interface TileOptions {
  /** The id of the session or the process. */
  name: string
  /** Like `process in tests`. */
  kind: string
  /** The session and the id. */
  place: string
  screen: Omit<ScreenOptions, 'label'>
  connections: Connections
  /** How many connections a hold takes. */
  holdCost: number
}

export abstract class Tile<Held extends Process | AnySession> {
  readonly element: HTMLElement
  readonly screen: Screen
  readonly #options: TileOptions
  readonly #state = el('span', { class: 'state' })
  readonly #badge = el('span', { class: 'badge', role: 'status' })
  readonly #holder = el('span', { class: 'holder' })
  readonly #command = el('p', { class: 'command' })
  readonly #usage = el('span', { class: 'usage' })
  readonly #buttons = el('span', { class: 'buttons' })
  #status: Status = 'idle'
  #changedAt = 0
  #needs: [waits: string, heldBy: string | null, canTake: boolean] = ['', null, true]
  isVisible = false
  protected hold: Hold<Held> | undefined
  protected readonly take: HTMLButtonElement

  constructor(options: TileOptions) {
    const { name, kind, place, screen } = options
    this.#options = options
    this.screen = new Screen({ ...screen, label: `Screen of ${name}` })
    const grow = button('Expand', () => this.#expand(grow), { 'aria-pressed': 'false' })
    this.element = el(
      'article',
      { class: 'tile', 'aria-label': `${kind} ${name}`, 'data-place': place },
      el(
        'header',
        {},
        ...[el('h2', { title: name }, name), el('small', {}, kind), this.#badge, this.#holder, this.#state],
        this.#command,
      ),
      this.screen.element,
      el('footer', {}, this.#usage, this.#buttons),
    )
    this.#buttons.append(grow)
    this.take = this.addButton('Take over', () =>
      attempt(() => (this.hold ? this.handBack(this.hold) : this.#takeOver())),
    )
  }

  addButton(label: string, act: () => unknown, attributes = {}): HTMLButtonElement {
    const added = button(label, act, attributes)
    this.#buttons.append(added)
    return added
  }

  /** Whether this page has taken it over. */
  get isHeld(): boolean {
    return this.hold !== undefined
  }

  get status(): Status {
    return this.#status
  }

  /** Where it stands: what waits for a person comes first, then what has failed, and last what has ended. */
  get rank(): number {
    if (this.element.classList.contains('asks')) return 0
    if (performance.now() - this.#changedAt < SETTLE_MS) return 2
    return this.#status === 'failed' ? 1 : this.#status === 'ended' ? 3 : 2
  }

  /** What it does, and the command that it runs or ran last. */
  protected show(status: Status, state: string, command: string): void {
    if (this.#status !== status) {
      this.element.classList.replace(this.#status, status) || this.element.classList.add(status)
      this.#status = status
      this.#changedAt = performance.now()
    }
    setText(this.#state, state)
    setText(this.#command, command)
    this.#command.title = command
  }

  /** Why this tile needs attention, or who took it over; empty otherwise. */
  protected showNeeds(waits: string, heldBy: string | null, canTake: boolean): void {
    this.#needs = [waits, heldBy, canTake]
    const holder = this.hold === undefined ? heldBy : 'you'
    setText(this.#badge, holder === null ? waits : '')
    setText(this.#holder, holder === null ? '' : `held by ${holder}`)
    this.element.classList.toggle('asks', waits !== '' && holder === null)
    const { connections, holdCost } = this.#options
    const isFree = heldBy === null && connections.canHold(holdCost)
    this.take.disabled = !canTake || (this.hold === undefined && !isFree)
  }

  protected set usage(stats: ProcessStats | undefined) {
    setText(
      this.#usage,
      stats === undefined
        ? ''
        : `${span(stats.cpuTime)} CPU, ${size(stats.memory)}, ${counted(stats.pids, 'process')}`,
    )
  }

  matches(words: string): boolean {
    const text = `${this.element.getAttribute('aria-label')} ${this.element.dataset.place} ${this.#command.textContent}`
    return text.toLowerCase().includes(words.toLowerCase())
  }

  /** Takes it over. Resolves with undefined if it has ended. */
  protected abstract makeHold(): Promise<Hold<Held> | undefined>
  /** To be called when it has been taken over, and without a hold when that has ended. */
  protected abstract onHold(hold: Hold<Held> | undefined): void

  protected async handBack(hold: Hold<Held>): Promise<void> {
    await hold.release()
  }

  dispose(): void {
    void this.hold?.release()
    this.screen.dispose()
    this.element.remove()
  }

  async #takeOver(): Promise<void> {
    const { connections, holdCost } = this.#options
    connections.hold(holdCost)
    let hold: Hold<Held> | undefined
    try {
      hold = await this.makeHold()
      this.#setHold(hold)
      await hold?.ended
    } finally {
      connections.release(holdCost)
      if (hold !== undefined && this.hold === hold) this.#setHold(undefined)
    }
  }

  #setHold(hold: Hold<Held> | undefined): void {
    this.hold = hold
    setText(this.take, hold === undefined ? 'Take over' : 'Hand back')
    this.element.classList.toggle('held', hold !== undefined)
    this.onHold(hold)
    this.showNeeds(...this.#needs)
  }

  #expand(grow: HTMLButtonElement): void {
    const isLarge = this.element.classList.toggle('large')
    grow.setAttribute('aria-pressed', String(isLarge))
    setText(grow, isLarge ? 'Shrink' : 'Expand')
    this.screen.isLarge = isLarge
    if (isLarge) this.element.scrollIntoView({ block: 'nearest' })
  }
}
