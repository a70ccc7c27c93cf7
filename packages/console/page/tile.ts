/** A tile: a screen with a title, badges and buttons, of what a person can take over. */
import type { Hold, Process, ProcessStats, Session } from 'nacre'
import { attempt } from './ask.ts'
import { button, counted, el, setText, size, span } from './dom.ts'
import type { Size } from './model.ts'
import { Screen } from './screen.ts'

/** The owner of the holds of this page, as others see it. */
export const PERSON = 'a person at the console'
/** How often a tile asks what it uses of the machine. */
export const LOOK_MS = 2000

export interface TileOptions {
  title: string
  /** The session and the name. */
  place: string
  size: Size
}

export abstract class Tile<Held extends Process | Session> {
  readonly element: HTMLElement
  readonly screen: Screen
  readonly #state = el('span', { class: 'state' })
  readonly #badge = el('span', { class: 'badge', role: 'status' })
  readonly #usage = el('span', { class: 'usage' })
  readonly #buttons = el('span', { class: 'buttons' })
  isVisible = false
  protected hold: Hold<Held> | undefined
  protected readonly take: HTMLButtonElement

  constructor({ title, place, size }: TileOptions) {
    this.screen = new Screen(size, `Screen of ${title}`)
    const grow = button('Expand', () => this.#expand(grow), { 'aria-pressed': 'false' })
    this.element = el(
      'article',
      { class: 'tile', 'aria-label': title, 'data-place': place },
      el('header', {}, el('h2', { title }, title), el('small', {}, place), this.#badge),
      this.screen.element,
      el('footer', {}, this.#state, this.#usage, this.#buttons),
    )
    this.#buttons.append(grow)
    this.take = this.addButton('Take over', () =>
      attempt(() => (this.hold ? this.handBack(this.hold) : this.#takeOver())),
    )
  }

  addButton(label: string, act: () => unknown): HTMLButtonElement {
    const added = button(label, act)
    this.#buttons.append(added)
    return added
  }

  set state(text: string) {
    setText(this.#state, text)
  }

  /** What needs a person. Empty for nothing. */
  set badge(text: string) {
    setText(this.#badge, text)
    this.element.classList.toggle('asks', text !== '')
  }

  set usage(stats: ProcessStats | undefined) {
    setText(
      this.#usage,
      stats === undefined
        ? ''
        : `${span(stats.cpuTime)} CPU, ${size(stats.memory)}, ${counted(stats.pids, 'process')}`,
    )
  }

  matches(words: string): boolean {
    const text = `${this.element.getAttribute('aria-label')} ${this.element.dataset.place}`
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
    const hold = await this.makeHold()
    if (hold === undefined) return
    this.#setHold(hold)
    void hold.ended.then(() => {
      if (this.hold === hold) this.#setHold(undefined)
    })
  }

  #setHold(hold: Hold<Held> | undefined): void {
    this.hold = hold
    setText(this.take, hold === undefined ? 'Take over' : 'Hand back')
    this.element.classList.toggle('held', hold !== undefined)
    this.onHold(hold)
  }

  #expand(grow: HTMLButtonElement): void {
    const isLarge = this.element.classList.toggle('large')
    grow.setAttribute('aria-pressed', String(isLarge))
    setText(grow, isLarge ? 'Shrink' : 'Expand')
    if (isLarge) this.element.scrollIntoView({ block: 'nearest' })
  }
}
