/** The tiles: their order, their places, and which of them can be seen. */
import { el } from './dom.ts'

/** Of the rows of the grid: a tile takes as many as its height needs. style.css has it, too. */
const ROW_PX = 2
const GAP_PX = 16
/** Nothing moves while a person uses the page, and for so long after. */
const STILL_MS = 2000

interface Placed {
  readonly element: HTMLElement
  readonly rank: number
  readonly isHeld: boolean
  setVisible(isVisible: boolean): void
  dispose(): void
}

export class Grid {
  readonly element = el('section', { id: 'tiles', 'aria-label': 'Sessions and processes' })
  readonly #tiles = new Map<Element, Placed>()
  #usedAt = Number.NEGATIVE_INFINITY
  readonly #seen = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries)
      this.#tiles.get(target)?.setVisible(isIntersecting && !document.hidden)
  })
  readonly #sizes = new ResizeObserver((entries) => {
    for (const { target, borderBoxSize } of entries) {
      const height = borderBoxSize[0]?.blockSize ?? 0
      ;(target as HTMLElement).style.gridRowEnd = `span ${Math.ceil((height + GAP_PX) / ROW_PX)}`
    }
  })

  constructor() {
    for (const type of ['pointermove', 'pointerdown', 'keydown', 'wheel', 'touchmove'])
      document.addEventListener(type, () => this.#use(), { passive: true })
    // A page that cannot be seen leaves the connections to others.
    document.addEventListener('visibilitychange', () => {
      for (const [element, tile] of this.#tiles) {
        if (document.hidden) tile.setVisible(false)
        this.#seen.unobserve(element)
        this.#seen.observe(element)
      }
    })
  }

  add(tile: Placed): void {
    this.#tiles.set(tile.element, tile)
    this.element.append(tile.element)
    this.#seen.observe(tile.element)
    this.#sizes.observe(tile.element)
  }

  remove(tile: Placed | undefined): void {
    if (tile === undefined) return
    this.#tiles.delete(tile.element)
    this.#seen.unobserve(tile.element)
    this.#sizes.unobserve(tile.element)
    tile.dispose()
  }

  /** Sorts the tiles by their rank, unless that could move one from under a pointer. */
  arrange(tiles: Placed[]): void {
    if (performance.now() - this.#usedAt < STILL_MS || tiles.some(({ isHeld }) => isHeld)) return
    const sorted = [...tiles].sort((left, right) => left.rank - right.rank)
    let next = this.element.firstElementChild
    for (const { element } of sorted) {
      if (element === next) next = next.nextElementSibling
      else move(this.element, element, next)
    }
  }

  #use(): void {
    this.#usedAt = performance.now()
  }
}

/** Keeps the focus and what is scrolled, where the browser can. */
function move(
  parent: Element & { moveBefore?: Element['insertBefore'] },
  element: Element,
  next: Element | null,
): void {
  if (parent.moveBefore !== undefined) parent.moveBefore(element, next)
  else parent.insertBefore(element, next)
}
