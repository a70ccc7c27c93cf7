/** A table of what has happened, the newest first, with a filter. Hidden until there is a row. */
import { el, setText, Tab } from './dom.ts'

const MOST_ROWS = 300

export interface List<T> {
  /** Of the element. */
  id: string
  title: string
  /** What the filter is for. */
  filter: string
  /** The choice that leaves rows out. */
  only?: { label: string; has(one: T): boolean }
  columns: string[]
  /** What is shown instead of rows that are filtered. */
  none: string
  /** The oldest first. */
  all: readonly T[]
  /** What is searched. */
  text(one: T): string
  /** The class of a row, and its cells. */
  row(one: T): { look?: string; cells: HTMLElement[] }
}

export class ListPanel<T> {
  readonly element: HTMLElement
  readonly tab: Tab
  readonly #list: List<T>
  readonly #rows = el('tbody')
  readonly #filter: HTMLInputElement
  readonly #only = el('input', { type: 'checkbox', onchange: () => this.#show() })
  readonly #empty = el('p', { class: 'none' })
  #words = ''
  /** What the rows were made from. */
  #last: T | undefined
  #shown = ''

  constructor(list: List<T>) {
    const { id, title, filter, only, columns } = list
    this.#list = list
    this.tab = new Tab(title, () => this.element)
    this.#filter = el('input', {
      ...{ type: 'search', placeholder: filter, 'aria-label': `Filter ${title.toLowerCase()}` },
      oninput: () => this.#show(),
    })
    this.element = el(
      'section',
      { id, class: 'list', 'aria-label': title, tabindex: '0', hidden: true },
      el(
        'header',
        {},
        el('h2', {}, `${title} `, this.tab.number()),
        this.#filter,
        ...(only === undefined ? [] : [el('label', {}, this.#only, ` ${only.label}`)]),
      ),
      el(
        'table',
        {},
        el('thead', {}, el('tr', {}, ...columns.map((name) => el('th', { scope: 'col' }, name)))),
        this.#rows,
      ),
      this.#empty,
    )
    this.tab.element.hidden = true
  }

  /** `words`: what the whole page is searched for. */
  update(words: string): void {
    this.#words = words.toLowerCase()
    this.#show()
  }

  #show(): void {
    const { all, only, text, row, none } = this.#list
    const filter = this.#filter.value.trim().toLowerCase()
    const shown = JSON.stringify([this.#words, filter, this.#only.checked])
    const last = all.at(-1)
    if (last === this.#last && shown === this.#shown) return
    this.#last = last
    this.#shown = shown
    this.element.hidden = all.length === 0
    this.tab.element.hidden = all.length === 0
    this.tab.count = all.length
    const has = (words: string) => words.includes(this.#words) && words.includes(filter)
    const isShown = (one: T) => (!this.#only.checked || only?.has(one)) && has(text(one).toLowerCase())
    const rows = all.filter(isShown).slice(-MOST_ROWS).reverse().map(row)
    this.#rows.replaceChildren(
      ...rows.map(({ look, cells }) => el('tr', look === undefined ? {} : { class: look }, ...cells)),
    )
    setText(this.#empty, rows.length === 0 ? none : '')
  }
}
