/** A tile: a screen with a title, badges and buttons. */
import type { ProcessStats } from 'nacre'
import { button, el, setText, size, span } from './dom.ts'
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

export class Tile {
  readonly element: HTMLElement
  readonly screen: Screen
  readonly #state = el('span', { class: 'state' })
  readonly #badge = el('span', { class: 'badge', role: 'status' })
  readonly #usage = el('span', { class: 'usage' })
  readonly #buttons = el('span', { class: 'buttons' })
  isVisible = false

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
      stats === undefined ? '' : `${span(stats.cpuTime)} CPU, ${size(stats.memory)}, ${stats.pids} processes`,
    )
  }

  matches(words: string): boolean {
    const text = `${this.element.getAttribute('aria-label')} ${this.element.dataset.place}`
    return text.toLowerCase().includes(words.toLowerCase())
  }

  dispose(): void {
    this.screen.dispose()
    this.element.remove()
  }

  #expand(grow: HTMLButtonElement): void {
    const isLarge = this.element.classList.toggle('large')
    grow.setAttribute('aria-pressed', String(isLarge))
    setText(grow, isLarge ? 'Shrink' : 'Expand')
    if (isLarge) this.element.scrollIntoView({ block: 'nearest' })
  }
}
